# SPDX-License-Identifier: Apache-2.0
"""The DSP convolutions against the reference, byte for byte, on emulated boards, with memory guarded on both sides."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from dsp_ops import conv2d, transpose_conv2d_of_every_kind, with_pruned_channel

from kernels import rig
from kernels.op_cases import case_of, check, kernel_of, random_operands, reference
from kernels.rig import M4, M7, M33, Target
from nightly import part_of
from pillion.emitters.c.dsp.conv import KERNELS
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import all_ok
from pillion.ops.conv import Conv2d

pytestmark = pytest.mark.qemu

POINTWISE_CHANNELS = (4, 8, 12, 16, 20, 28, 32, 64)
OUT_CHANNELS = (*range(1, 18), 31, 32, 33, 63, 64, 65)
PIXELS = ((1, 1), (1, 2), (3, 1), (2, 2), (1, 5), (7, 3))
"""One and two pixels, three, one and two more than a multiple of three."""


def pointwise_ops() -> list[Conv2d]:
    sizes = [(c, n) for n in OUT_CHANNELS for c in POINTWISE_CHANNELS]
    return [conv2d((1 + i % 3 // 2, *PIXELS[i % 6], c), n, seed=i) for i, (c, n) in enumerate(sizes)]


def test_pointwise_of_every_size() -> None:
    check(M33, pointwise_ops())


@pytest.mark.nightly
@pytest.mark.parametrize("board", [M4, M7], ids=lambda board: board.board.core)
def test_pointwise_on_other_cores(board: Target) -> None:
    check(board, pointwise_ops()[::7])


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (-5, 127), (-5, 60), (-128, 60)])
def test_bounds(low: int, high: int) -> None:
    check(M33, [conv2d((1, 3, w, 8), 7, out_zp=-5, low=low, high=high, seed=w) for w in range(1, 7)])


def windows(channels: tuple[int, ...]) -> list[Conv2d]:
    """Every kernel, stride, dilation and padding of a few, over images down to one pixel."""
    kernels, strides, images = (
        ((1, 1), (3, 3), (2, 3), (5, 1), (1, 4)),
        (1, 2, 3),
        ((1, 1), (3, 2), (5, 7), (6, 4), (1, 9)),
    )
    ops = []
    for kernel in kernels:
        for stride in strides:
            for image in images:
                seed = len(ops)
                dilation = (1 + seed % 2, 1 + seed // 2 % 2)
                reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
                least = [max(0, r + 1 - size) for r, size in zip(reach, image, strict=True)]
                top, left = (max(need, seed % (r + 2)) for need, r in zip(least, reach, strict=True))
                padding = (top, left, seed // 3 % (reach[0] + 1), seed // 5 % (reach[1] + 1))
                shape = (1 + seed % 2, *image, channels[seed % len(channels)])
                fields = {"stride": (stride, 1 + seed % 3), "dilation": dilation, "padding": padding}
                ops.append(conv2d(shape, OUT_CHANNELS[seed % len(OUT_CHANNELS)], kernel, seed=seed, **fields))
    return ops


@pytest.mark.turns(3)
@pytest.mark.parametrize("channels", [(4, 8, 12, 16), (1, 3), (2, 5, 6, 7, 9, 13, 33)], ids=str)
def test_windows(channels: tuple[int, ...]) -> None:
    check(M33, windows(channels))


def test_disjoint_windows_use_no_ring_kernel() -> None:
    """A ring saves widening inputs again, which nobody does here."""
    apart, shared = (conv2d((1, 16, 16, 16), 8, (k, k), seed=1, stride=(2, 2)) for k in (1, 3))
    assert [kernel_of(M33, op).name for op in (apart, shared)] == ["conv2d_dsp", "conv2d_ring_dsp"]


def test_sums_beyond_24_bits() -> None:
    """Of B, which carries its sums in the upper 24 bits: they are set aside on the way."""
    pointwise = [
        conv2d((1, 2, 2, c), n, seed=i) for i, (c, n) in enumerate(product((1024, 1300, 4096), (1, 2, 5, 8)))
    ]
    windows = [conv2d((1, 3, 3, c), 5, (3, 3), seed=c, padding=(1, 1, 1, 1)) for c in (128, 131, 256, 257)]
    check(M33, pointwise + windows)


def test_pruned_channels() -> None:
    """Their biases may be beyond what the fast sums hold: the result is known."""
    biases = (2**30 + 128, -(2**30), 2**31 - 1, -(2**31) + 1)
    ops = [with_pruned_channel(conv2d((1, 2, 3, 8), 5, seed=i), 1, bias) for i, bias in enumerate(biases)]
    kernel = next(k for k in KERNELS if k.name == "conv2d_1x1_dsp")
    assert all(all_ok(kernel.check(op, Arithmetic.CMSIS_NN)) for op in ops)
    check(M33, ops)


@pytest.mark.parametrize("board", part_of([M33, M4], 2), ids=lambda board: board.board.core)
def test_transposed_convolutions(board: Target) -> None:
    """Each call writes the rows of its phase, and no other."""
    ops = transpose_conv2d_of_every_kind((4, 8, 12, 16, 20, 64), (1, 2, 3, 5, 7, 8, 9, 16))
    taken = [op for op in ops if kernel_of(M33, op)]
    assert len(taken) >= 25
    cases, expected = [], []
    for op in taken:
        data = random_operands(op, np.random.default_rng(len(cases)))
        want, whole = reference(op, Arithmetic.CMSIS_NN, data), case_of(op, kernel_of(M33, op), data)
        for call in whole.calls:
            first = int(call.params["y_offset"]) // (want.shape[2] * want.shape[3])
            rows = np.full_like(want, np.uint8(rig.FILLING).view(np.int8))
            rows[:, first :: op.stride[0]] = want[:, first :: op.stride[0]]
            cases.append(replace(whole, calls=(call,)))
            expected.append(rows)
    rig.check(board, cases, expected)
