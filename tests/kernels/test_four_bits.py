# SPDX-License-Identifier: Apache-2.0
"""Layers with weights of 4 bits on this computer and on the emulated cores against the reference, byte for byte."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from kernels import layers16_ops, rig
from kernels.op_cases import (
    CMSIS_NN,
    Run,
    check_every_kernel,
    check_runs,
    compare_counts,
    kernel_of,
    kernels_of,
    random_operands,
)
from kernels.rig import M4, M33, M55, SANITIZED
from pillion.errors import PillionError
from pillion.ir.nibbles import pack_nibbles, unpack_nibbles
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Pair, PerChannel, PerTensor, Shape, constant_value
from pillion.ir.verdict import failed_rules
from pillion.ops import Conv2d, DepthwiseConv2d, Linear
from pillion.ops.example_values import ZERO_POINTS, conv_bias, conv_weights, in_16_bits, make_op, value

TARGETS = [
    pytest.param(rig.host(*SANITIZED), marks=pytest.mark.slow, id="host"),
    pytest.param(M4, marks=(pytest.mark.qemu, pytest.mark.nightly), id="m4"),
    pytest.param(M33, marks=pytest.mark.qemu, id="m33"),
    pytest.param(M55, marks=pytest.mark.qemu, id="m55"),
]
BORDER = (1, 1, 1, 1)


def layer(
    cls: type[Op], shape: Shape, weights_shape: Shape, seed: int, lowest: int = -7, **fields: Any
) -> Any:
    """A layer whose results use the range of int8; every third one has the ends as its only weights."""
    rng = np.random.default_rng([seed, *shape, *weights_shape])
    data = rng.integers(lowest, 7, weights_shape, endpoint=True).astype(np.int8)
    if seed % 3 == 2:
        data = rng.choice(np.array([lowest, 7], np.int8), weights_shape)
    data.reshape(-1)[0] = lowest
    scales = tuple(rng.uniform(0.01, 0.09, weights_shape[0]).tolist())
    weights = constant_value("w", data, PerChannel(scales, 0), DType.INT4)
    x = value("x", shape, 0.043, ZERO_POINTS[seed % 4])
    taps = data.size // weights_shape[0]
    y = value("y", (), 0.011 * taps**0.5, ZERO_POINTS[(seed + 1) % 4])
    bounds = ({}, {"low": y.zero_point}, {"low": min(-100, y.zero_point), "high": 120})[seed % 3]
    return make_op(
        cls,
        y,
        x=x,
        weights=weights,
        bias=conv_bias(x, weights, weights_shape[0], seed),
        **{**bounds, **fields},
    )


def conv2d(shape: Shape, out: int, kernel: Pair = (1, 1), seed: int = 0, **fields: Any) -> Conv2d:
    made = layer(Conv2d, shape, (out, *kernel, shape[3] // fields.get("groups", 1)), seed, **fields)
    assert isinstance(made, Conv2d)
    return made


def linear(rows: int, features: int, out: int, seed: int = 0, **fields: Any) -> Linear:
    made = layer(Linear, (rows, features), (out, features), seed, **fields)
    assert isinstance(made, Linear)
    return made


def pixels() -> Iterator[Op]:
    """Every number of channels and pixels around the units of the loops; sums of several rounds; strides."""
    for i, channels in enumerate((*range(1, 18), 24, 31, 32, 36, 64, 68, 200)):
        yield conv2d((1, 1 + i % 3, 1 + i % 5, channels), 1 + (7 * i) % 19, seed=i)
        yield conv2d((1 + i % 2, 3, 4 + i % 5, 4 + 4 * (i % 5)), channels, seed=i)
        yield conv2d((2, 3, 4 + i % 5, 8), channels, seed=i, stride=(1 + i % 2, 2))
    yield conv2d((1, 2, 5, 1028), 18, seed=1)


def windows() -> Iterator[Op]:
    """Windows of many sizes, with strides, dilations and padding, over channels in fours and others."""
    for i, kernel in enumerate(((3, 3), (1, 5), (5, 1), (2, 3), (4, 4))):
        for j, channels in enumerate((1, 3, 4, 8, 20)):
            n = 5 * i + j
            steps = {"stride": (1 + n % 2, 1 + n // 2 % 3), "dilation": (1 + n // 3 % 2, 1 + j % 2)}
            around = (n % 2, n // 2 % 3, 2 - n % 3, n % 3)
            yield conv2d(
                (1 + n % 2, 11, 9 + n % 4, channels), 1 + (3 * n) % 20, kernel, n, padding=around, **steps
            )
    yield conv2d((1, 4, 6, 5), 8, (4, 6), seed=2)
    yield conv2d((1, 7, 9, 1), 8, (3, 3), seed=1, padding=BORDER)
    yield conv2d((2, 17, 19, 24), 9, (3, 3), seed=1, padding=BORDER)


def windows_3x3() -> Iterator[Op]:
    """Every width around the pixels that are computed together, strides, paddings, several blocks of rows; with -8."""
    for i, (width, channels) in enumerate(product(range(2, 12), (16, 48))):
        around = (i // 2 % 4, i % 3, 2 - i % 3, 1 + i // 3 % 3)
        steps = {"stride": (1 + i % 3, 1 + i // 2 % 2)}
        shape = (1 + i % 2, 3 + 5 * (i % 4), width, channels)
        yield conv2d(shape, 8 + (7 * i) % 18, (3, 3), i, padding=around, lowest=-8, **steps)
        yield conv2d((1, 4, width, channels), 4 + 4 * (i % 7), (3, 3), i, padding=BORDER, lowest=-8)
    yield conv2d((2, 33, 41, 32), 12, (3, 3), seed=2, padding=BORDER, lowest=-8)


def vectors() -> Iterator[Op]:
    """Every number of features around the units of the loops, one row and several."""
    for i, features in enumerate((*range(1, 18), 28, 32, 33, 64, 127, 128, 640)):
        for rows in (1, 2 + i % 4):
            yield linear(rows, features, 1 + (5 * i) % 37, seed=i)


def long_vectors() -> Iterator[Op]:
    """Sums of D that are set aside, -8 as all weights, and biases for which a channel cannot be D."""
    for i, features in enumerate((700, 1024, 1501, 2052)):
        yield linear(1 + i % 2, features, 9 + i, seed=3 * i + 2, lowest=-8)
        large = linear(1, features, 9 + i, seed=i)
        biases = np.where(np.arange(9 + i) % 4 == 3, 2**21 - 1 - 2**22 * (i % 2), large.bias.constant)
        bias = constant_value("b", biases.astype(np.int32), large.bias.type.quant)
        yield replace(large, bias=bias, y=large.y.like("y", quant=PerTensor(60.0, 3)), low=-128)


def runs(ops: Sequence[Op]) -> list[Run]:
    """The ops with the ends of int8, and with random data."""
    rng = np.random.default_rng(0)
    return [Run(op, random_operands(op, rng, extreme)) for op in ops for extreme in (True, False)]


def with_lowest(ops: Iterable[Op]) -> Iterator[Op]:
    """The ops with -8 for half of the weights of -7, and for one at least."""
    for op in ops:
        assert isinstance(op, Conv2d | Linear)
        data = op.weights.constant.copy()
        lowest = np.flatnonzero(data == -7)[::2]
        data.reshape(-1)[lowest if lowest.size else 0] = -8
        yield replace(op, weights=constant_value("w", data, op.weights.type.quant, DType.INT4))


@pytest.mark.qemu
@pytest.mark.parametrize("ops", [pixels, windows, vectors])
@pytest.mark.parametrize("target", [M33, M55], ids=["m33", "m55"])
def test_weights_of_the_full_range(target: rig.Target, ops: Any) -> None:
    taken = [op for op in with_lowest(ops()) if kernels_of(target, op)]
    assert len(taken) >= 15
    check_every_kernel(target, runs(taken))


def test_vectors_of_the_full_range_are_rounded_once() -> None:
    tflite = Arithmetic.TFLITE
    ops = [op for op in with_lowest(vectors()) if kernel_of(M55, op, tflite)]
    assert len(ops) >= 15
    assert {kernel_of(M55, op, tflite).name for op in ops} == {"linear_tflite_full_4_mve"}
    check_runs(M55, runs(ops), tflite)


@pytest.mark.parametrize("ops", [pixels, windows, windows_3x3, vectors, long_vectors])
@pytest.mark.parametrize("target", TARGETS)
def test_layers_of_every_size(target: rig.Target, ops: Any) -> None:
    taken = [op for op in ops() if kernels_of(target, op)]
    assert len(taken) >= 15 or ops is long_vectors
    check_every_kernel(target, runs(taken))


def test_groups_minus_eight_and_double_precision_are_portable() -> None:
    host = rig.host(*SANITIZED)
    grouped = [
        conv2d((2, 5, 7, 6), 4, (3, 3), 2, groups=2, padding=BORDER),
        conv2d((1, 3, 5, 9), 9, (1, 3), 4, groups=3),
    ]
    check_runs(host, runs([*grouped, conv2d((1, 3, 5, 9), 9, seed=1, lowest=-8)]))
    check_runs(host, runs([linear(3, 33, 7, 1), linear(1, 8, 5, 2)]), Arithmetic.TFLITE)


def failing(target: rig.Target, name: str, op: Op, arithmetic: Arithmetic = CMSIS_NN) -> list[str]:
    """The rules that keep a kernel from an op."""
    (kernel,) = (k for k in target.kernels if k.name == name)
    return [verdict.rule for verdict in failed_rules(kernel.check(op, arithmetic))]


def test_refusals_of_four_bit_kernels() -> None:
    assert failing(M55, "linear_4_mve", linear(1, 16, 8, lowest=-8)) == ["weights"]
    assert failing(M33, "linear_4_dsp", linear(1, 16, 8, lowest=-8)) == []
    assert failing(M33, "linear_pixels_4_dsp", linear(2, 18, 8)) == ["rows", "in_features"]
    assert failing(M33, "linear_4_dsp", linear(2, 18, 8)) == []
    assert failing(M33, "linear_4_dsp", linear(1, 8191, 8)) == ["sum"]
    assert failing(M55, "conv2d_1x1_k16_4_mve", conv2d((1, 1, 3, 17), 6)) == [
        *("in_channels", "out_channels", "pixels")
    ]
    assert failing(M55, "linear_4_mve", linear(1, 16, 8), Arithmetic.TFLITE) == ["arithmetic"]
    assert failing(M33, "conv2d_thin_4_dsp", conv2d((1, 5, 5, 8), 8, groups=2)) == ["groups"]
    huge = linear(1, 1024, 8)
    step = 2**27 / 200 * huge.x.scale * float(huge.weights.channel_scales.max())
    bias = constant_value("b", np.full(8, 2**27, np.int32), huge.bias.type.quant)
    huge = replace(huge, bias=bias, y=huge.y.like("y", quant=PerTensor(step, -128)), low=-128)
    assert "sum" in failing(M33, "linear_4_dsp", huge)
    assert failing(M55, "linear_4_mve", huge) == []
    check_runs(M55, runs([huge]))


def with_weights(op: Any, dtype: DType) -> Op:
    """The same layer with weights from -7 to 7, or 16 times as large ones of 8 bits."""
    data = np.clip(op.weights.constant, -7, 7) * (1 if dtype is DType.INT4 else 16)
    return replace(op, weights=constant_value("w", data, op.weights.type.quant, dtype))


def layers_to_compare() -> Iterator[Any]:
    """Layers with operands of 16 and of 8 bits that have the same way with weights of 4 and of 8 bits, of small and of usual sizes."""
    for made in (layers16_ops, sys.modules[__name__]):
        yield from (made.linear(rows, size, 64, seed=1) for rows in (1, 4) for size in (8, 16, 64, 100))
        yield from (made.conv2d((1, 5, 5, inputs), 32, seed=1) for inputs in (8, 16, 32, 63, 96))
        yield from (made.conv2d((1, 2, pixels, 16), 32, seed=1) for pixels in (2, 4, 8))
        yield made.conv2d((1, 12, 12, 3), 16, (3, 3), seed=1, padding=BORDER)
        yield made.conv2d((1, 8, 8, 32), 32, (3, 3), seed=1, padding=BORDER)
        yield made.conv2d((1, 12, 12, 32), 16, (3, 3), seed=1, padding=(0, 0, 1, 1), stride=(2, 2))
        yield made.conv2d((1, 3, 5, 24), 40, (3, 5), seed=1)
    yield from (layers16_ops.conv2d((1, 8, 8, inputs), 16, (3, 3), 1, padding=BORDER) for inputs in (8, 16))


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "most"), [(M33, 1.18), (M55, 1.19)], ids=["m33", "m55"])
def test_4_bits_take_hardly_more_instructions_than_8(target: rig.Target, most: float) -> None:
    ops = list(layers_to_compare())
    pairs = [(with_weights(op, DType.INT4), with_weights(op, DType.INT8)) for op in ops]
    compare_counts(target, pairs, most)


@pytest.mark.qemu
def test_weights_of_the_full_range_take_hardly_more_instructions() -> None:
    ops = [with_weights(op, DType.INT8) for op in layers_to_compare()]
    full = with_lowest(with_weights(op, DType.INT4) for op in layers_to_compare())
    compare_counts(M55, list(zip(full, ops, strict=True)), 1.3)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 16])
def test_nibbles_are_read_as_written(count: int) -> None:
    numbers = np.random.default_rng(count).integers(-8, 7, count, endpoint=True).astype(np.int8)
    packed = pack_nibbles(numbers)
    assert packed.size == (count + 1) // 2
    np.testing.assert_array_equal(unpack_nibbles(packed.view(np.uint8), count), numbers)


def test_weights_of_4_bits_are_constants_of_dense_layers() -> None:
    with pytest.raises(ValueError, match="outside"):
        constant_value("w", np.array([8], np.int8), None, DType.INT4)
    dense = linear(1, 4, 2)
    assert dense.weights.type.size_bytes == 4
    wide = {"x": in_16_bits(dense.x), "weights": dense.weights, "bias": dense.bias}
    make_op(Linear, in_16_bits(dense.y), **wide).check()
    shaped = conv_weights((1, 3, 3, 4), 3, 0)
    coarse = constant_value("w", shaped.constant // 16, shaped.type.quant, DType.INT4)
    x = value("x", (1, 5, 5, 4))
    with pytest.raises(PillionError, match="int8"):
        make_op(DepthwiseConv2d, value("y", ()), x=x, weights=coarse, bias=conv_bias(x, coarse, 4, 0)).check()


def test_int8_weights_take_the_kernels_that_they_had() -> None:
    examples: Any = list(Conv2d.examples())
    for target in (M33, M55):
        names = {
            k.name
            for op in examples
            if op.weights.dtype is DType.INT8 and (k := kernel_of(target, op, CMSIS_NN))
        }
        assert names
        assert not any("_4_" in name for name in names)
