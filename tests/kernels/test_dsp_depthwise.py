# SPDX-License-Identifier: Apache-2.0
"""The DSP depthwise convolutions against the reference, byte for byte, in place wherever the planner may do so."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from dsp_ops import depthwise

from kernels import rig
from kernels.op_cases import case_of, check, kernel_of, random_operands
from kernels.rig import M4, M7, M33, Target
from pillion.ops.conv import DepthwiseConv2d

pytestmark = pytest.mark.qemu

CHANNELS = (*range(1, 34), 63, 64, 65)
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13)
FAST = [((3, 3), 1), ((3, 3), 2), ((5, 5), 1), ((5, 5), 2)]
OTHERS = [((3, 3), 3), ((1, 1), 1), ((2, 4), 1), ((7, 3), 2), ((1, 9), 1)]


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
