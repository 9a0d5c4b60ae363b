# SPDX-License-Identifier: Apache-2.0
"""Layers with 16-bit operands on the emulated cores against the reference, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.dsp_ops import transpose_conv2d, transpose_conv2d_of_every_kind
from kernels.layers16_ops import (
    EDGE,
    WEIGHT_SCALE,
    conv2d,
    depthwise,
    linear,
    value,
    with_8_bit_operands,
)
from kernels.op_cases import (
    CMSIS_NN,
    Run,
    case_of,
    check_runs,
    compare_counts,
    kernel_of,
    kernels_of,
    random_operands,
    reference,
    refusals,
)
from kernels.rig import M4, M33, M55
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.mve import layers8_16
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ops import (
    AvgPool2d,
    BatchMatmul,
    Clamp,
    Dequantize,
    Linear,
    MaxPool2d,
    Mean,
    Pad,
    Quantize,
    Slice,
    Softmax,
    Transpose,
)
from pillion.ops.example_values import in_16_bits, make_op, with_4_bits

pytestmark = pytest.mark.qemu

TARGETS = [
    pytest.param(M4, marks=pytest.mark.nightly, id="m4"),
    pytest.param(M33, id="m33"),
    pytest.param(M55, id="m55"),
]
BORDER = (1, 1, 1, 1)


def pixels() -> Iterator[Op]:
    """Every number of channels and of pixels around the units of the loops, strides, and one image past 2^15 elements."""
    for i, channels in enumerate((*range(1, 18), 24, 31, 33, 60, 100)):
        yield conv2d((1, 1 + i % 3, 1 + i % 5, channels), 1 + (7 * i) % 19, seed=i)
        yield conv2d((1 + i % 2, 3, 4 + i % 5, 1 + (5 * i) % 13), channels, seed=i, stride=(1 + i % 2, 2))
    yield conv2d((1, 1, 2**15 // 24 + 5, 25), 26, seed=1)


def windows() -> Iterator[Op]:
    """Windows of many sizes, with strides, dilations and padding."""
    for i, kernel in enumerate(((3, 3), (1, 5), (5, 1), (2, 3), (4, 4), (3, 1))):
        for j, channels in enumerate((1, 3, 4, 8, 17)):
            n = 5 * i + j
            fields: dict[str, Any] = {
                "stride": (1 + n % 2, 1 + n // 2 % 3),
                "dilation": (1 + n // 3 % 2, 1 + j % 2),
            }
            around = (n % 2, n // 2 % 3, 2 - n % 3, n % 3)
            yield conv2d(
                (1 + n % 2, 11, 9 + n % 4, channels), 1 + (3 * n) % 20, kernel, n, padding=around, **fields
            )
    yield conv2d((1, 4, 6, 5), 8, (4, 6), seed=2)
    yield conv2d((1, 37, 41, 24), 8, (3, 3), seed=1, padding=BORDER)


def windows_3x3() -> Iterator[Op]:
    """Every width around the fours of pixels, every step, paddings that hide columns, several blocks of rows."""
    for i, (width, channels) in enumerate(product(range(2, 15), (8, 16, 40))):
        steps = (1 + i % 3, 1 + i % 2)
        around = ((i // 2) % 4, i % 3, 2 - i % 3, 1 + (i // 3) % 3)
        shape = (1 + i % 2, 3 + 5 * (i % 4), width, channels)
        yield conv2d(shape, 1 + (7 * i) % 18, (3, 3), i, stride=steps, padding=around)
        yield conv2d((1, 4, width, channels), 2 + 2 * (i % 7), (3, 3), i, padding=BORDER)
    yield conv2d((2, 33, 41, 24), 10, (3, 3), seed=1, padding=BORDER)
    yield conv2d((2, 33, 41, 24), 10, (3, 3), seed=2, stride=(2, 2), padding=(0, 1, 0, 1))


def transposed() -> Iterator[Op]:
    """Windows around the strides, with paddings; and rows of results beyond an image of one row."""
    beyond = {"dilation": (2, 1), "output_padding": (1, 0)}
    ops = [
        *transpose_conv2d_of_every_kind((*range(1, 18), 40), (1, 2, 3, 5, 8, 16)),
        *(transpose_conv2d((1, 1, 4, 3), 2, (1, 1), seed=seed, **beyond) for seed in (1, 2)),
        transpose_conv2d((1, 37, 41, 24), 6, (3, 3), seed=1, stride=(2, 2), padding=(1, 1, 0, 0)),
    ]
    for i, op in enumerate(ops):
        yield replace(with_16_bits(op), low=(-(2**15), 0, -20000)[i % 3])


def with_16_bits(op: Any) -> Any:
    """The same layer with an operand and a result of 16 bits, without bounds."""
    return replace(op, x=in_16_bits(op.x), y=in_16_bits(op.y), low=-(2**15), high=2**15 - 1)


def vectors() -> Iterator[Op]:
    """Every number of features around the units of the loops; one vector past 2^15 elements."""
    for i, features in enumerate((*range(1, 18), 23, 32, 33, 64, 127, 640)):
        for rows in (1, 2 + i % 4):
            yield linear(rows, features, 1 + (5 * i) % 37, seed=i)
    yield linear(1, 2**15 + 3, 9, seed=1)


def depthwise_3x3() -> Iterator[Op]:
    """Images around the units of the loops, every padding, several filters for a channel, several bands of rows."""
    for i, (h, w) in enumerate(product((1, 2, 3, 5, 8, 25), (4, 5, 7, 8, 13))):
        channels = (1, 3, 8, 9, 16, 21)[i % 6]
        yield depthwise((1 + i % 2, h, w, channels), (3, 3), i, padding=BORDER)
        around = (i % 4, 2 - i % 2, 2 + i % 2, 1 + i % 3)
        yield depthwise((1, h, w + 4, channels), (3, 3), i, 1 + i // 3 % 2, padding=around, stride=(2, 2))
    for h, w in ((1, 3), (3, 3), (3, 1), (3, 2), (2, 3)):
        yield depthwise((1, h, w, 5), (3, 3), w, padding=BORDER)
        yield depthwise((2, 2 * h, 2 * w, 5), (3, 3), w, padding=BORDER, stride=(2, 2))
    yield depthwise((1, 5, 7, 4), (3, 3), 1, 3, padding=BORDER)
    yield depthwise((1, 40, 41, 22), (3, 3), 1, padding=BORDER)
    yield depthwise((1, 150, 60, 2), (3, 3), 1, padding=BORDER)
    yield depthwise((1, 13, 3, 5), (3, 3), 1, padding=BORDER, stride=(2, 2))
    yield depthwise((2, 9, 1, 5), (3, 3), 2, padding=(0, 1, 2, 1))
    yield depthwise((2, 61, 90, 2), (3, 3), 1, padding=BORDER, stride=(2, 2))


def depthwise_of_any_window() -> Iterator[Op]:
    """Other windows and narrow images, with strides and dilations."""
    for i, kernel in enumerate(((5, 5), (1, 7), (2, 2), (3, 1), (4, 3), (3, 3))):
        for j, channels in enumerate((1, 7, 8, 9, 16, 19)):
            around = (kernel[0] // 2, kernel[1] - 1, kernel[0] - 1, kernel[1] // 2)
            steps: dict[str, Any] = {"stride": (1 + j % 2, 1 + i % 3), "dilation": (1 + i % 2, 1 + j % 2)}
            size = (9 + i, 3 if kernel == (3, 3) else 11)
            yield depthwise((1 + j % 2, *size, channels), kernel, i + j, padding=around, **steps)


def transposes() -> Iterator[Op]:
    """To and from channels first: rows and columns around the units of the loops, batches, steps of more than 16 bits."""
    for i, (h, w, c) in enumerate(product((2, 3), (2, 7, 8, 17), (2, 3, 8, 33))):
        image = value("x", (1 + i % 2, h, w, c))
        for order in ((0, 2, 3, 1), (0, 3, 1, 2)):
            yield make_op(Transpose, image.like("y"), x=image, order=order)
    long = value("x", (1, 3, 5000))
    for order in ((2, 0, 1), (0, 2, 1)):
        yield make_op(Transpose, long.like("y"), x=long, order=order)


def matmuls() -> Iterator[Op]:
    """Every depth and number of vectors around the units of the loops, either operand held, and ratios of scales from those
    with which nearly all results saturate to those with which results are small."""
    for i, depth in enumerate((*range(1, 18), 31, 64, 300)):
        rows, columns = 1 + (5 * i) % 9, 1 + (7 * i) % 8
        for j, (adj_x, adj_y) in enumerate(((False, False), (False, True), (True, True))):
            batch = 1 + (i + j) % 3
            yield matmul(batch, rows, depth, columns, adj_x, adj_y, seed=3 * i + j)
    yield matmul(1, 150, 40, 120, False, True, seed=1)


def matmul(
    batch: int, rows: int, depth: int, columns: int, adj_x: bool, adj_y: bool, seed: int
) -> BatchMatmul:
    a = value("a", (batch, depth, rows) if adj_x else (batch, rows, depth), 2.0**-12)
    b = value("b", (batch, columns, depth) if adj_y else (batch, depth, columns), 2.0**-12)
    y = value("y", (), 2.0 ** -(19 - seed % 23) * (1 + seed % 5 / 7))
    bounds = ({"low": -(2**15), "high": 2**15 - 1}, {"low": 0, "high": 900})[seed % 4 == 0]
    made = make_op(BatchMatmul, y, a=a, b=b, adj_x=adj_x, adj_y=adj_y, **bounds)
    assert isinstance(made, BatchMatmul)
    return made


def test_products_of_any_order_have_a_kernel() -> None:
    """Vectors of both operands that lie apart are the portable kernel's."""
    op = matmul(1, 4, 5, 6, True, False, seed=1)
    assert refusals(M33, op) == refusals(M55, op) == ["moving"]


@pytest.mark.parametrize("target", TARGETS)
def test_products_whose_sums_are_as_large_as_can_be(target: rig.Target) -> None:
    """Of either sign, at every ratio of scales that a kernel takes: most results saturate."""
    runs = []
    for seed, depth in product(range(23), (5, 4095)):
        op = matmul(1, 2, depth, 2, False, True, seed)
        if kernel_of(target, op) is None:
            continue
        for a, b in ((-(2**15), -(2**15)), (-(2**15), 2**15 - 1)):
            runs.append(
                Run(
                    op,
                    tuple(np.full(v.shape, x, np.int16) for v, x in zip((op.a, op.b), (a, b), strict=True)),
                )
            )
    assert len(runs) > 50
    check_runs(target, runs)


def check(target: rig.Target, ops: Sequence[Op]) -> None:
    """All by every kernel that takes them, with random and with extreme numbers, in the memory of their operand where that may be."""
    rng, cases, wanted = np.random.default_rng(0), [], []
    for op in ops:
        kernels = kernels_of(target, op)
        assert kernels, (op, refusals(target, op))
        for extreme in (False, True):
            data = random_operands(op, rng, extreme)
            for kernel in kernels:
                overwritten = op.activations[0] if extreme and kernel.in_place(op) else None
                cases.append(case_of(op, kernel, data, overwritten=overwritten))
                wanted.append(reference(op, CMSIS_NN, data))
    rig.check(target, cases, wanted, rig.fillings(cases))


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_every_size(target: rig.Target) -> None:
    """With DSP, ratios with which long vectors saturate are the portable kernel's."""
    made = [op for op in matmuls() if kernels_of(target, op)]
    assert len(made) > 50
    check(target, made)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "made",
    [pixels, windows, windows_3x3, vectors, depthwise_3x3, depthwise_of_any_window, transposes, transposed],
)
def test_layers_of_every_size(target: rig.Target, made: Any) -> None:
    check(target, list(made()))


@pytest.mark.parametrize(
    ("target", "most"), [pytest.param(M33, 1.1, id="m33"), pytest.param(M55, 1.75, id="m55")]
)
def test_instructions_of_transposed_convolutions(target: rig.Target, most: float) -> None:
    """Those of 16 bits, over those of 8."""
    ops = [
        transpose_conv2d((1, 12, 12, 16), out, (size, size), seed=1, stride=(2, 2), padding=around)
        for size, around in ((2, (0, 0, 0, 0)), (3, (1, 1, 0, 0)), (3, BORDER), (4, BORDER))
        for out in (8, 16)
    ]
    compare_counts(target, [(with_16_bits(op), op) for op in ops], most)


def long_layers() -> Iterator[Op]:
    """Operands and results of more than 2^16 elements."""
    yield conv2d((1, 1, 2**16 // 24 + 5, 24), 26, seed=1)
    yield conv2d((1, 1, 2**16 // 16 + 5, 16), 18, seed=2)
    yield conv2d((1, 67, 63, 16), 17, (3, 3), seed=1, padding=BORDER)
    yield conv2d((1, 67, 63, 16), 18, (3, 3), seed=2, padding=BORDER)
    yield linear(2**11 + 3, 33, 34, seed=1)
    yield linear(1, 2**16 + 3, 2, seed=2)


@pytest.mark.parametrize("made", [pixels, windows, windows_3x3, vectors, long_layers])
def test_layers_from_8_to_16_bits(made: Any) -> None:
    check(M55, list(with_8_bit_operands(made())))


def test_every_kernel_from_8_to_16_bits_is_checked() -> None:
    made = [op for layers in (pixels, windows, windows_3x3, vectors) for op in with_8_bit_operands(layers())]
    taken = {kernel.name for op in made for kernel in kernels_of(M55, op)}
    assert taken == {kernel.name for kernel in layers8_16.KERNELS}


def from_8_bits_with_ratio(op: Any, ratio: float) -> Any:
    """The same layer with a ratio of scales that all its channels have."""
    weights = constant_value("w", op.weights.constant, PerChannel((0.01,) * len(op.bias.constant), 0))
    return replace(op, weights=weights, y=value("y", op.y.shape, op.x.scale * 0.01 / ratio))


def layers_from_8_bits() -> Iterator[Any]:
    """One for each loop that rounds."""
    yield from with_8_bit_operands(
        [
            *(conv2d((1, 3, 3, inputs), 8, seed=1) for inputs in (16, 20, 40, 60, 70)),
            *(conv2d((1, 5, 5, 16), out, (3, 3), seed=1) for out in (8, 9)),
            *(linear(rows, size, 8, seed=1) for rows, size in ((1, 20), (8, 12), (8, 20), (8, 70))),
        ]
    )


def test_ratios_of_scales_from_8_to_16_bits() -> None:
    """From the largest to the least; larger ones are the portable kernel's, and least ones."""
    ops = list(layers_from_8_bits())
    check(M55, [from_8_bits_with_ratio(op, 0.99 * 2.0**-exponent) for op in ops for exponent in range(1, 17)])
    for op, ratio in product(ops, (0.5, 1.0, 0.99 * 2.0**-17)):
        assert refusals(M55, from_8_bits_with_ratio(op, ratio)) == ["right_shift"]


def test_sums_from_8_to_16_bits_up_to_the_edge() -> None:
    """The largest sums of either sign, which partial sums without the zero point may pass."""
    runs = []
    for layer, zero, sign in product(layers_from_8_bits(), (-128, 127), (-1, 1)):
        op = from_8_bits_with_ratio(layer, 0.99 * 2.0**-16)
        weights = np.full(op.weights.shape, 127 * sign, np.int8)
        reach = 127 * 255 * (op.weights.type.elements // len(op.bias.constant))
        bias = (EDGE - reach) * sign * (1 if zero < 0 else -1)
        made = replace(
            op,
            x=Value("x", TensorType(op.x.shape, DType.INT8, PerTensor(op.x.scale, zero))),
            weights=constant_value("w", weights, op.weights.type.quant),
            bias=constant_value("b", np.full(len(op.bias.constant), bias, np.int32)),
        )
        made.check()
        runs += [Run(made, (np.full(op.x.shape, number, np.int8),)) for number in (-128, 127)]
    check_runs(M55, runs)


def in_8_bits(op: Any) -> Any:
    """A layer from 8 to 16 bits with a result of 8 bits."""
    y = Value("y", TensorType(op.y.shape, DType.INT8, PerTensor(256 * op.y.scale, -5)))
    return replace(op, y=y, low=-128 if op.low < 0 else -5, high=127)


def test_layers_from_8_to_16_bits_take_hardly_more_instructions_than_those_of_8() -> None:
    bounds = ({"low": -(2**15), "high": 2**15 - 1}, {"low": 0, "high": 2**15 - 1})
    made = [
        *(
            conv2d((1, *size, inputs), out, seed=1)
            for size in ((1, 3), (7, 7), (25, 5))
            for inputs in (8, 24, 48, 64, 96)
            for out in (8, 64)
        ),
        *(
            conv2d((1, *size, inputs), 16, (3, 3), seed=1, stride=(stride, stride), padding=BORDER)
            for size in ((12, 12), (9, 9), (24, 3))
            for inputs in (3, 8, 16, 32)
            for stride in (1, 2)
        ),
        *(
            linear(rows, *sizes, seed=1)
            for rows in (1, 2, 3, 8)
            for sizes in ((640, 128), (128, 128), (64, 12), (8, 4))
        ),
        conv2d((1, 4, 4, 16), 24, (4, 4), seed=1),
    ]
    ops = [replace(op, **bound) for op in with_8_bit_operands(made) for bound in bounds]
    compare_counts(M55, [(op, in_8_bits(op)) for op in ops], 1.05)


def test_instructions_of_long_vectors() -> None:
    """Where products of bytes take fewer instructions than products of 16 bits, they are chosen."""
    sizes = ((640, 128), (128, 128), (128, 8), (1024, 10), (64, 12), (48, 32), (8, 128))
    ops = [linear(1, *size, seed=1) for size in sizes]
    in_bytes = [in_8_bits(op) for op in with_8_bit_operands(ops[:2])]
    compare_counts(M55, list(zip(ops[:2], in_bytes, strict=True)), 1.7)
    for op in ops:
        data = random_operands(op, np.random.default_rng(0))
        kernels = kernels_of(M55, op)
        counts = [run.instructions for run in rig.run(M55, [case_of(op, kernel, data) for kernel in kernels])]
        (chosen,) = choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.MVE)
        assert len(kernels) == 2
        assert counts[kernels.index(chosen.kernel)] <= 1.02 * min(counts)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("made", [pixels, windows, windows_3x3, vectors])
def test_weights_of_4_bits(target: rig.Target, made: Any) -> None:
    """Some are -8."""
    made_ops = list(with_4_bits(made(), DType.INT16))
    taken = [op for op in made_ops if kernels_of(target, op)]
    assert len(taken) > 0.9 * len(made_ops)
    check(target, taken)


def test_few_inputs_with_weights_of_4_bits_take_hardly_more_instructions_than_bytes() -> None:
    ops = [
        conv2d((1, 1, pixels, inputs), 16, seed=1) for pixels in (32, 49, 144) for inputs in (8, 16, 24, 64)
    ]
    compare_counts(M55, list(zip(with_4_bits(ops, DType.INT16), ops, strict=True)), 1.1)


def test_vectors_of_the_most_inputs() -> None:
    """The sum of all inputs has 32 bits, too: longer vectors have another kernel."""
    longest, longer = (linear(1, size, 5, seed=1) for size in (2**16 - 1, 2**16))
    check_runs(M33, [Run(longest, (np.full(longest.x.shape, x, np.int16),)) for x in (-(2**15), 2**15 - 1)])
    chosen = [
        choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.DSP) for op in (longest, longer)
    ]
    assert [one[0].kernel.name for one in chosen] == ["linear_16_dsp", "linear_rows_16_dsp"]


def test_weights_of_4_bits_with_sums_of_more_than_28_bits() -> None:
    """With DSP they have kernels of their own; on Helium sums of 32 bits wrap around until they are taken apart."""
    op = next(with_4_bits([linear(1, 64, 5, seed=1)], DType.INT16))
    assert isinstance(op, Linear)
    coarse = Value("y", TensorType(op.y.shape, DType.INT16, PerTensor(1000.0)))
    large = replace(op, bias=constant_value("b", np.full(5, 2**27, np.int32)))
    taken = {kernel.name for kernel in kernels_of(M33, large)}
    assert taken == {"linear_large_16_4_dsp", "linear_rows_unpacked_16_4_dsp"}
    too_large = replace(op, bias=constant_value("b", np.full(5, EDGE, np.int32)))
    assert set(refusals(M33, too_large)) == set(refusals(M55, too_large)) == {"sums"}
    for target in (M33, M55):
        assert kernels_of(target, op)
        assert "right_shift" in refusals(target, replace(op, y=coarse))


def four_bits_at_the_edge(largest: int) -> list[Op]:
    """Layers whose sums all reach a number, of either sign by turns, with inputs of -2^15."""
    made: list[Op] = []
    for op in (
        conv2d((1, 1, 3, 500), 9, seed=1),
        conv2d((1, 5, 5, 57), 9, (3, 3), seed=1),
        conv2d((1, 3, 3, 57), 13, (3, 3), seed=1),
        linear(1, 515, 9, seed=1),
        linear(3, 515, 19, seed=1),
        linear(10, 515, 19, seed=1),
    ):
        out = len(op.bias.constant)
        signs = np.where(np.arange(out) % 3 == 1, -1, 1)
        sizes = np.resize([7, 5, 7, 7], op.weights.constant.size).reshape(op.weights.shape)
        data = -sizes * signs.reshape(-1, *[1] * (sizes.ndim - 1))
        bias = signs * (largest - (np.abs(data).reshape(out, -1).sum(axis=1) << 15))
        weights = constant_value("w", data.astype(np.int8), op.weights.type.quant, DType.INT4)
        y = op.y.like("y", quant=PerTensor(2.0**-26 * WEIGHT_SCALE * largest))
        made.append(replace(op, weights=weights, bias=constant_value("b", bias.astype(np.int32)), y=y))
    return made


@pytest.mark.parametrize(
    ("target", "edge"), [(M33, 2**27 - 1), (M33, EDGE), (M55, EDGE)], ids=["m33_28_bits", "m33", "m55"]
)
def test_weights_of_4_bits_with_sums_up_to_the_edge(target: rig.Target, edge: int) -> None:
    cases, wanted = [], []
    for op in four_bits_at_the_edge(edge):
        kernels = kernels_of(target, op)
        assert kernels, refusals(target, op)
        for kernel, number in product(kernels, (-(2**15), 2**15 - 1)):
            data = (np.full(op.activations[0].shape, number, np.int16),)
            cases.append(case_of(op, kernel, data))
            wanted.append(reference(op, CMSIS_NN, data))
    rig.check(target, cases, wanted)
    for op, larger in zip(four_bits_at_the_edge(edge), four_bits_at_the_edge(edge + 1), strict=True):
        assert set(kernels_of(target, op)) - set(kernels_of(target, larger))
        assert bool(kernels_of(target, larger)) == (edge < EDGE)


@pytest.mark.parametrize("target", TARGETS)
def test_clamps_and_numbers_that_become_16_bits_or_real(target: rig.Target) -> None:
    """Of every count around a vector, one past 2^15, in place; halves go to the even neighbour."""
    runs: list[Run] = []
    counts = (*range(1, 18), 2**15 + 3)
    for count in counts:
        x, full = value("x", (count,)), np.resize(np.arange(-(2**15), 2**15, 7), count).astype(np.int16)
        for low, high in ((0, 32767), (-32768, 77), (-300, 299)):
            runs += [
                Run(make_op(Clamp, x, x=x, low=low, high=high), (full,), place) for place in (False, True)
            ]
        odd_zero = Value(
            "x", TensorType((count,), DType.INT16, PerTensor(0.00037, (-(2**15), 77)[count % 2]))
        )
        back = Dequantize(x=odd_zero, y=Value("r", TensorType(x.shape, DType.FLOAT32)))
        runs.append(Run(back, (full,)))
        if kernel_of(target, op := make_op(Quantize, x, x=Value("r", TensorType(x.shape, DType.FLOAT32)))):
            reals = np.linspace(-70_000, 70_000, count).round() * np.float32(x.scale / 2)
            odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
            runs += [Run(op, (reals.astype(np.float32),)), Run(op, (np.resize(odd, count),), True)]
    check_runs(target, [run for run in runs if kernel_of(target, run.op)])
    assert kernel_of(target, runs[0].op)


def test_pools() -> None:
    """Channels around a vector, windows over borders, batches, sums of more than 16 bits."""
    ops: list[Op] = []
    for i, channels in enumerate((1, 7, 8, 9, 16, 19)):
        for cls, (kernel, stride) in product(
            (AvgPool2d, MaxPool2d), (((2, 2), (2, 2)), ((3, 3), (2, 1)), ((7, 7), (7, 7)))
        ):
            around = (kernel[0] // 2, kernel[1] // 3, kernel[0] // 3, kernel[1] // 2)
            fields: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": around}
            bounds = ((-(2**15), 2**15 - 1), (0, 9000))[i % 2]
            x = value("x", (1 + i % 2, 9, 8, channels))
            ops.append(make_op(cls, value("y", ()), x=x, low=bounds[0], high=bounds[1], **fields))
    check(M55, ops)


def test_copies() -> None:
    """Axes in any order, slices with steps, pads; of rows around a vector."""
    ops: list[Op] = []
    for i, (h, w, c) in enumerate(product((1, 3), (2, 7, 8, 17), (1, 3, 8, 33))):
        image = value("x", (1 + i % 2, h, w, c))
        ops += [
            make_op(Transpose, image.like("y"), x=image, order=order)
            for order in ((2, 1, 3, 0), (3, 2, 1, 0))
        ]
        begin, step = (0, 0, w // 3, c // 2), (1, 1, 1 + i % 2, 1 + i % 3)
        sizes = zip(image.shape, begin, step, strict=True)
        part = image.like("y", shape=tuple(-(-(size - first) // by) for size, first, by in sizes))
        ops.append(make_op(Slice, part, x=image, begin=begin, step=step))
        ops.append(make_op(Pad, image.like("y"), x=image, before=(0, 1, 2, i % 3), after=(0, 0, 1, 1)))
    check(M55, ops)


def test_means() -> None:
    """Results side by side and alone around a vector, zero points at both ends, more elements than 16 bits count."""
    ops = []
    for i, (inner, count) in enumerate(product((1, 2, 7, 8, 9, 16, 20, 43), (1, 5, 8, 33))):
        zeros = ((0, 0), (-(2**15), 5), (2**15 - 1, -(2**15)))[i % 3]
        x, y = (
            Value(name, TensorType(shape, DType.INT16, PerTensor(scale, zero)))
            for name, shape, scale, zero in (
                ("x", (1 + i % 3, count, inner), 2.0**-10, zeros[0]),
                ("y", (), 2.0 ** -(10 + i % 2) * (1 + i % 5 / 9), zeros[1]),
            )
        )
        ops.append(make_op(Mean, y, x=x, axes=(1,), keepdims=False))
    ops.append(make_op(Mean, value("y", ()), x=value("x", (1, 2**15 - 1, 3)), axes=(1,), keepdims=False))
    taken = [op for op in ops if kernel_of(M55, op)]
    assert len(taken) > 0.8 * len(ops)
    check(M55, taken)


def test_shares() -> None:
    """Every count around a vector, differences that are shifted left, right and not at all, in place."""
    ops = []
    for i, count in enumerate((*range(1, 18), 33, 1000)):
        x = value("x", (1 + i % 3, count), (3e-6, 1e-4, 2e-4, 5e-4, 0.3)[i % 5])
        ops.append(make_op(Softmax, value("y", (), 2.0**-15), x=x))
    check(M55, ops)


def at_the_edge(largest: int) -> list[Op]:
    """Layers whose first sum reaches a number with inputs of -2^15."""
    return [
        conv2d((1, 1, 3, 500), 9, seed=1, largest=largest),
        conv2d((1, 5, 5, 57), 9, (3, 3), seed=1, padding=BORDER, largest=largest),
        conv2d((1, 5, 5, 56), 8, (3, 3), seed=1, padding=BORDER, largest=largest),
        depthwise((1, 6, 9, 9), (3, 3), 1, padding=BORDER, largest=largest),
        linear(1, 515, 9, seed=1, largest=largest),
        linear(3, 515, 9, seed=1, largest=largest),
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_sums_up_to_the_edge_of_32_bits(target: rig.Target) -> None:
    """One more has the portable kernel, with sums of 64 bits."""
    runs = [
        Run(op, (np.full(op.activations[0].shape, number, np.int16),))
        for op in at_the_edge(EDGE)
        for number in (-(2**15), 2**15 - 1)
    ]
    check_runs(target, runs)
    portable = list(at_the_edge(EDGE + 1))
    assert all("sums" in refusals(target, op) for op in portable)
    isa = Isa(target.folders[-1])
    chosen = [choose_kernels(Graph("g", op.activations, (op,), op.results), isa)[0].kernel for op in portable]
    assert all(kernel.isa is Isa.PORTABLE for kernel in chosen)
    inputs = [(np.full(op.activations[0].shape, -(2**15), np.int16),) for op in portable]
    cases = [case_of(op, kernel, x) for op, kernel, x in zip(portable, chosen, inputs, strict=True)]
    rig.check(target, cases, [reference(op, CMSIS_NN, x) for op, x in zip(portable, inputs, strict=True)])
