# SPDX-License-Identifier: Apache-2.0
"""Layers whose ratios of scales are 1/2 or more by every kernel that takes them, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, kernels_of, random_operands, reference
from pillion.emitters.c.channel_scaling import offset_of_sums
from pillion.ir import numerics
from pillion.ir.types import DType, PerChannel, Shape, constant_value
from pillion.ops import BatchMatmul, Conv2d, DepthwiseConv2d, Linear
from pillion.ops.example_values import make_op, value

BORDER = (1, 1, 1, 1)
BELOW_1, FROM_1 = (0.5, 0.7123, 0.99), (1.0, 1.7, 40.0)
"""Ratios of scales without any shift, and with a left shift."""


def layer(cls: type[Any], x: Shape, weights: Shape, ratio: float, seed: int, **more: Any) -> Any:
    """A layer of few weights that are not 0, so that results lie within int8 and beyond. Its first channel has the ratio,
    others have smaller ones."""
    rng = np.random.default_rng(seed)
    axis = 3 if cls is DepthwiseConv2d else 0
    count, dtype = weights[axis], more.pop("dtype", DType.INT8)
    share = min(0.5, 30 * count / np.prod(weights))
    data = rng.choice(np.array([-1, 0, 1], np.int8), weights, p=[share / 2, 1 - share, share / 2])
    scales = np.where(np.arange(count) % 3, rng.uniform(1e-4, 0.01, count), 0.01)
    per_channel = (PerChannel(tuple((by * scales).tolist()), axis * (by == 1)) for by in (1, 0.05))
    kinds, bias = per_channel, rng.integers(-90, 90, count).astype(np.int32)
    y = value("y", (), 0.05 * 0.01 / ratio, (-128, -4, 127)[seed % 3])
    bounds = {"low": y.zero_point} if seed > 3 else {}
    return make_op(
        cls,
        y,
        x=value("x", x, 0.05, 3),
        weights=constant_value("w", data, next(kinds), dtype),
        bias=constant_value("b", bias, next(kinds)),
        **bounds,
        **more,
    )


def layers(ratio: float, dtype: DType) -> Iterator[Any]:
    """Every kind of windows, and vectors, around the channels and pixels that are computed together."""
    for seed in range(1, 5):
        of = {"ratio": ratio, "seed": seed, "dtype": dtype}
        for channels, out in ((8, 12), (24, 9), (33, 16), (52, 5), (80, 20)):
            yield layer(Conv2d, (1, 3, 2 + seed, channels), (out, 1, 1, channels), **of)
            yield layer(Linear, (3 * seed - 2, channels), (out, channels), **of)
        for channels in (3, 16):
            yield layer(Conv2d, (1, 6, 7, channels), (12, 3, 3, channels), padding=BORDER, **of)
        yield layer(Conv2d, (1, 9, 9, 16), (9, 3, 3, 16), stride=(2, 2), **of)
        yield layer(Conv2d, (1, 3, 3, 20), (11, 3, 3, 20), **of)


def depthwise(ratio: float) -> Iterator[Any]:
    """Every kind of windows of single channels."""
    for seed, (side, stride) in product(range(1, 5), ((3, 1), (3, 2), (5, 1), (2, 1))):
        shape, steps = (1, 17, 18, 5 + 14 * (seed % 2)), {"stride": (stride, stride)}
        yield layer(DepthwiseConv2d, shape, (1, side, side, shape[3]), ratio, seed, **steps)


def products(ratio: float) -> Iterator[BatchMatmul]:
    """Products of matrices with few numbers that are not 0."""
    for seed, depth in enumerate((5, 16, 40)):
        a, b = value("a", (2, 7, depth), 0.05), value("b", (2, depth, 9), 0.05)
        yield make_op(BatchMatmul, value("y", (), 0.05 * 0.05 / ratio, (-4, 5, 0)[seed]), a=a, b=b)


def operands(op: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    """Any int8 numbers; of matrices, a few between -2 and 2."""
    if not isinstance(op, BatchMatmul):
        return random_operands(op, rng)
    return tuple(rng.choice(np.array([-2, -1, 0, 1, 2], np.int8), v.shape) for v in op.activations)


def ops_for(target: rig.Target) -> Iterator[Any]:
    """What the kernels of a target take."""
    is_helium = target is rig.M55
    for ratio in BELOW_1 + FROM_1 * is_helium:
        yield from layers(ratio, DType.INT8)
        yield from depthwise(ratio)
        if "scalar" not in target.folders:
            yield from layers(ratio, DType.INT4)
    if is_helium:
        yield from (op for ratio in BELOW_1 for op in products(ratio))


TARGETS = {rig.M55: 40, rig.M33: 15, rig.M3: 4, rig.M4: 15, rig.M0: 4}
"""The least number of kernels that take such layers."""


@pytest.mark.qemu
@pytest.mark.parametrize(
    "target",
    [
        *(pytest.param(target, id=target.board.core) for target in (rig.M55, rig.M33, rig.M3)),
        *(pytest.param(t, id=t.board.core, marks=pytest.mark.nightly) for t in (rig.M4, rig.M0)),
    ],
)
def test_layers_of_every_kind(target: rig.Target) -> None:
    rng = np.random.default_rng(0)
    cases, wanted, taken = [], [], set()
    for op in ops_for(target):
        kernels = kernels_of(target, op)
        assert kernels, op
        data = operands(op, rng)
        cases += [case_of(op, kernel, data) for kernel in kernels]
        wanted += [reference(op, CMSIS_NN, data)] * len(kernels)
        taken |= {kernel.name for kernel in kernels}
    assert len(taken) >= TARGETS[target]
    rig.check(target, cases, wanted, rig.fillings(cases))


def test_mixed_shifts_remain_portable() -> None:
    """On Helium, right shifts from 12 on next to left shifts; with DSP, left shifts, and results next to halves."""
    halves, left = (layer(Linear, (2, 16), (8, 16), ratio, 1) for ratio in (0.7, 1.5))
    assert kernels_of(rig.M55, halves)
    assert kernels_of(rig.M55, left)
    assert not kernels_of(rig.M33, halves)
    assert not kernels_of(rig.M33, left)
    scales = left.weights.channel_scales.copy()
    scales[1] = 2.0**-14 * scales[0]
    data = left.weights.constant.copy()
    data[1] = 127
    weights = constant_value("w", data, PerChannel(tuple(scales.tolist()), 0))
    assert not kernels_of(rig.M55, replace(left, weights=weights))


@pytest.mark.parametrize("multiplier", [2**30, 3 * 2**29, 1_234_567_890, 2**31 - 1])
def test_offsets_make_sums_positive_and_change_no_result(multiplier: int) -> None:
    found = offset_of_sums(multiplier)
    assert found is not None
    offset, units = found
    sums = np.arange(-offset, 5000)
    plain = numerics.multiply_high(sums, multiplier)
    raised = numerics.multiply_high(sums + offset, multiplier) - units
    for zero_point in (-128, 0, 127):
        assert np.array_equal(*(np.clip(one + zero_point, -128, 127) for one in (plain, raised)))
