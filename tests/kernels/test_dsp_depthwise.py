# SPDX-License-Identifier: Apache-2.0
"""The DSP depthwise convolutions against the reference, byte for byte, in place wherever the planner may do so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from dsp_ops import depthwise

from kernels import rig
from kernels.layers16_ops import depthwise as depthwise_16
from kernels.op_cases import (
    Run,
    case_of,
    check,
    check_every_kernel,
    compare_counts,
    kernel_of,
    random_operands,
)
from kernels.rig import M4, M7, M33, Target
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ops.conv import DepthwiseConv2d

pytestmark = pytest.mark.qemu

CHANNELS = (*range(1, 34), 63, 64, 65)
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13)
FAST = [((3, 3), 1), ((3, 3), 2), ((5, 5), 1), ((5, 5), 2)]
OTHERS = [((3, 3), 3), ((1, 1), 1), ((2, 4), 1), ((7, 3), 2), ((1, 9), 1)]
COLUMNS = (*range(1, 12), 16, 17)
"""Of windows whose rows have one or several parts of two or three words."""


def ops(kernel: tuple[int, int], stride: int) -> list[DepthwiseConv2d]:
    """Every height with every width; paddings from none (where the window fits) to a window that sees nothing."""
    made = []
    for seed, (h, w) in enumerate(product(SIZES, SIZES)):
        least = [max(0, k - size) for k, size in zip(kernel, (h, w), strict=True)]
        top, left = (max(need, (seed + seed // 7) % (k + 1)) for need, k in zip(least, kernel, strict=True))
        padding = (top, left, seed // 3 % (kernel[0] + 1), seed // 5 % (kernel[1] + 1))
        shape = (1 + seed % 5 // 4, h, w, CHANNELS[seed % len(CHANNELS)])
        made.append(depthwise(shape, kernel, seed=seed, stride=(stride, stride), padding=padding))
    return made


@pytest.mark.turns(4)
@pytest.mark.parametrize(("kernel", "stride"), FAST, ids=str)
def test_every_size(kernel: tuple[int, int], stride: int) -> None:
    check(M33, ops(kernel, stride))


def test_long_rows() -> None:
    """Of more than one round of the copy into the plane."""
    made = [
        depthwise((1, 3, w, 2), (3, 3), seed=w, stride=(stride, stride), padding=(1, left, 1, 1))
        for w in (16, 17, 18, 19, 20, 22, 33, 39)
        for stride in (1, 2)
        for left in (0, 1)
    ]
    check(M33, made)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("kernel", "stride"), OTHERS, ids=str)
def test_other_windows(kernel: tuple[int, int], stride: int) -> None:
    check(M33, ops(kernel, stride)[::3])


@pytest.mark.nightly
@pytest.mark.parametrize("board", [M4, M7], ids=lambda board: board.board.core)
def test_other_cores(board: Target) -> None:
    check(board, [op for window in FAST for op in ops(*window)[::9]])


def test_dilation_and_multiplier() -> None:
    dilated = [
        depthwise((1, 7, w, 3), (3, 3), seed=w, dilation=(2, 1 + w % 3), padding=(2, 3, 1, 3))
        for w in range(1, 9)
    ]
    multiplied = [
        depthwise((2, 3, w, 2), (3, 3), multiplier=m, seed=w, padding=(1, 1, 1, 1))
        for w in range(1, 6)
        for m in (2, 3, 8)
    ]
    check(M33, dilated + multiplied)


def windows_of_parts(layer: Any) -> Iterator[DepthwiseConv2d]:
    """Windows of every length either way, with every number of outputs that are no whole four, strides that a loop has and
    those that none has, and zeros between taps."""
    for seed, (columns, stride) in enumerate(product(COLUMNS, (1, 2, 3))):
        for rows, width in ((1, 1 + seed % 9), (2 + seed % 5, 4 + seed % 4)):
            size, step = (rows, columns)[:: 1 - 2 * (seed % 2)], (1 + seed % 3, stride)
            dilation = (1 + seed // 2 % 2, 1 + (seed % 5 == 0) * 3)
            reach = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
            shape = (1 + seed % 2, 1 + 2 * rows, width * stride, 1 + seed % 3)
            around = (reach[0], reach[1] // 2, seed % 3, reach[1] - reach[1] // 2)
            fields = {"stride": step, "dilation": dilation, "padding": around}
            yield layer(shape, size, seed=seed, **fields)


@pytest.mark.parametrize("layer", [depthwise, depthwise_16], ids=["8", "16"])
def test_windows_of_parts(layer: Any) -> None:
    check(M33, list(windows_of_parts(layer)))


@pytest.mark.parametrize("layer", [depthwise, depthwise_16], ids=["8", "16"])
def test_pixel_by_pixel(layer: Any) -> None:
    """All windows, and ratios of scales without a right shift, with every number of channels that are no whole four."""
    rng = np.random.default_rng(0)
    made = [*windows_of_parts(layer), *(layer((2, 3, 4, c), (1, 1), seed=c) for c in range(1, 20))]
    made += [layer((1, h, 7, 512), (h, 7), seed=h) for h in (1, 7)]
    runs = [Run(op, random_operands(op, rng, extreme)) for op in made for extreme in (False, True)]
    taken = check_every_kernel(M33, runs)
    assert {name for name in taken if "pixels" in name} == {
        "depthwise_pixels_dsp" if layer is depthwise else "depthwise_pixels_16_dsp"
    }


def test_few_outputs_are_made_pixel_by_pixel() -> None:
    for op in (depthwise((1, 7, 7, 64), (7, 7), seed=1), depthwise_16((1, 1, 9, 64), (1, 9), 1)):
        (choice,) = choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.DSP)
        assert "pixels" in choice.kernel.name


def test_planes_of_16_bits() -> None:
    """Large ones are made band by band, in batches, with several filters for a channel, and with all bounds of results."""
    large = [
        depthwise_16(shape, kernel, seed, filters, stride=(step, step), padding=(1, 2, 1, 1))
        for seed, (kernel, step) in enumerate(product(((5, 5), (3, 3), (4, 7)), (1, 2)))
        for shape, filters in (((2, 41, 83, 2), 1 + seed % 2), ((1, 90, 60, 3), 1))
    ]
    check(M33, large)
    made = [kernel_of(M33, op) for op in large]
    assert {k.name for k in made if k} == {f"depthwise_{n}_16_dsp" for n in ("3x3", "3x3_stride2", "any")}
    assert max(k.scratch_bytes(op) for k, op in zip(made, large, strict=True) if k) < 10_000


def test_16_bits_take_hardly_more_instructions_than_8() -> None:
    forms: list[tuple[Any, Any, dict[str, Any]]] = [
        (shape, (k, k), {"stride": (s, s), "padding": (k // 2,) * 4})
        for k in (3, 5, 7)
        for s in (1, 2)
        for shape in ((1, 14, 14, 24), (1, 12, 12, 24), (1, 7, 7, 48))
    ]
    forms += [((1, 1, 100, 16), (1, k), {"padding": (0, k // 2, 0, k // 2)}) for k in (3, 9, 15)]
    forms += [((1, 25, 5, 16), (3, 1), {"padding": (1, 0, 1, 0)}), ((1, 12, 12, 24), (1, 1), {})]
    forms += [((1, 12, 12, 24), (3, 3), {"dilation": (2, 2), "padding": (2,) * 4})]
    pairs = [(depthwise_16(*form, 1, **f), depthwise(*form, seed=1, **f)) for *form, f in forms]
    compare_counts(M33, pairs, 1.12)


def test_estimates_of_images_and_of_a_few_rows_are_close() -> None:
    """Stripes are chosen by them; a few rows have their fours along the other side."""
    sizes = [(25, 5), (3, 5), (1, 7), (9, 9), (4, 24), (17, 16)]
    ops = [
        depthwise(
            (1, (h - 1) * s + k - p, (w - 1) * s + k - p, 17),
            (k, k),
            seed=1,
            stride=(s, s),
            padding=(p // 2,) * 4,
        )
        for k in (3, 5)
        for s in (1, 2)
        for p in (0, k - 1)
        for h, w in sizes
        if h > 1 or not p
    ]
    kernels = [kernel_of(rig.M33, op) for op in ops]
    rng = np.random.default_rng(0)
    cases = [case_of(op, kernel, random_operands(op, rng)) for op, kernel in zip(ops, kernels, strict=True)]
    for op, kernel, result in zip(ops, kernels, rig.run(rig.M33, cases), strict=True):
        assert kernel is not None
        assert kernel.work is not None
        assert abs(kernel.work(op) / result.instructions - 1) < 0.13, (kernel.name, op.x.shape)
