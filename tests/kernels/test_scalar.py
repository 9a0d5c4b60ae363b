# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores without SIMD against the reference, byte for byte, on emulated boards, with memory guarded on both sides."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from dsp_ops import conv2d, depthwise, linear, with_pruned_channel

from kernels.op_cases import Run, check, check_runs, kernel_of, refusals
from kernels.rig import HAS_CC, M0, M3, SANITIZED, Target
from nightly import part_of
from pillion.emitters.c.scalar.conv import KERNELS
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import all_ok
from pillion.ops import ALL_OPS
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.example_values import float_value, value
from pillion.ops.formats import Dequantize, Quantize

pytestmark = pytest.mark.qemu

boards = pytest.mark.parametrize("board", part_of([M0, M3], 2), ids=lambda board: board.board.core)
IN_CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 33, 64)
OUT_CHANNELS = (2, 3, 4, 5, 8, 9, 17, 32, 33)
PIXELS = ((1, 1), (1, 2), (3, 1), (2, 2), (1, 5), (7, 3))
BOUNDS = [(-128, 127), (-5, 127), (-5, 60), (-128, 60)]


@pytest.mark.turns(6)
@boards
def test_pointwise_of_every_size(board: Target) -> None:
    sizes = list(product(IN_CHANNELS, OUT_CHANNELS))
    check(board, [conv2d((1 + i % 3 // 2, *PIXELS[i % 6], c), n, seed=i) for i, (c, n) in enumerate(sizes)])


@boards
def test_linear(board: Target) -> None:
    """Single rows, and rows that go by threes."""
    check(
        board,
        [linear(r, c, n, seed=r * c) for r in (1, 2, 3, 4, 7) for c in (1, 6, 16, 33) for n in (2, 5, 10)],
    )


@boards
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_bounds(board: Target, low: int, high: int) -> None:
    fields = {"out_zp": -5, "low": low, "high": high}
    check(board, [conv2d((1, 3, w, 8), 7, seed=w, **fields) for w in range(1, 5)])
    check(
        board, [depthwise((1, 5, w, 3), (3, 3), seed=w, padding=(1, 1, 1, 1), **fields) for w in range(1, 5)]
    )


def windows() -> list[Conv2d]:
    """Every kernel, stride, dilation and padding of a few, over images down to one pixel."""
    ops = []
    for kernel in ((1, 1), (3, 3), (2, 3), (5, 1), (1, 4)):
        for stride in (1, 2, 3):
            for image in ((1, 1), (3, 2), (5, 7), (6, 4), (1, 9)):
                seed = len(ops)
                dilation = (1 + seed % 2, 1 + seed // 2 % 2)
                reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
                least = [max(0, r + 1 - size) for r, size in zip(reach, image, strict=True)]
                top, left = (max(need, seed % (r + 2)) for need, r in zip(least, reach, strict=True))
                padding = (top, left, seed // 3 % (reach[0] + 1), seed // 5 % (reach[1] + 1))
                shape = (1 + seed % 2, *image, IN_CHANNELS[seed % len(IN_CHANNELS)])
                fields = {"stride": (stride, 1 + seed % 3), "dilation": dilation, "padding": padding}
                ops.append(conv2d(shape, OUT_CHANNELS[seed % len(OUT_CHANNELS)], kernel, seed=seed, **fields))
    return ops


@boards
def test_windows(board: Target) -> None:
    check(board, windows())


def depthwise_ops(kernel: tuple[int, int], stride: int, dilation: int = 1) -> list[DepthwiseConv2d]:
    """Every height with every width; paddings from none (where the window fits) to a window that sees nothing."""
    made = []
    reach = [(k - 1) * dilation + 1 for k in kernel]
    for seed, (h, w) in enumerate(product((1, 2, 3, 4, 5, 7, 8, 13), repeat=2)):
        least = [max(0, k - size) for k, size in zip(reach, (h, w), strict=True)]
        top, left = (max(need, (seed + seed // 7) % (k + 1)) for need, k in zip(least, reach, strict=True))
        padding = (top, left, seed // 3 % (reach[0] + 1), seed // 5 % (reach[1] + 1))
        shape = (1 + seed % 5 // 4, h, w, (1, 2, 3, 5, 8)[seed % 5])
        fields = {"stride": (stride, stride), "dilation": (dilation, dilation), "padding": padding}
        made.append(depthwise(shape, kernel, seed=seed, **fields))
    return made


@pytest.mark.turns(4)
@boards
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [
        ((3, 3), 1, 1),
        ((3, 3), 2, 1),
        ((5, 5), 1, 1),
        ((5, 5), 2, 1),
        ((3, 3), 1, 2),
        ((1, 1), 3, 1),
        ((2, 4), 1, 3),
        ((3, 1), 3, 1),
    ],
    ids=str,
)
def test_depthwise(board: Target, kernel: tuple[int, int], stride: int, dilation: int) -> None:
    check(board, depthwise_ops(kernel, stride, dilation))


@boards
def test_pruned_channels_and_long_sums(board: Target) -> None:
    """Biases may be beyond what the sums hold where the result is known; thousands of inputs."""
    biases = (2**30 + 128, -(2**30), 2**31 - 1, -(2**31) + 1)
    ops = [with_pruned_channel(conv2d((1, 2, 3, 8), 5, seed=i), 1, bias) for i, bias in enumerate(biases)]
    kernel = next(k for k in KERNELS if k.name == "conv2d_1x1_scalar")
    assert all(all_ok(kernel.check(op, Arithmetic.CMSIS_NN)) for op in ops)
    check(
        board,
        [
            *ops,
            conv2d((1, 2, 2, 1300), 3, seed=1),
            conv2d((1, 3, 3, 256), 3, (3, 3), seed=2, padding=(1,) * 4),
        ],
    )


def numbers_around(scale: float) -> Array:
    """Each middle between two integers at the scale with its neighbours, all powers of two with both signs, and what is no number."""
    halves = (np.arange(-600, 601) / 2).astype(np.float32) * np.float32(scale)
    near = [halves]
    for towards in (np.float32(np.inf), np.float32(-np.inf)):
        beside = halves
        for _ in range(3):
            near.append(beside := np.nextafter(beside, towards))
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    others = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    spread = np.random.default_rng(1).standard_normal(2000).astype(np.float32) * np.float32(60 * scale)
    return np.concatenate([*near, powers, -powers, spread, others])


SCALES = (0.0312, 1.0, 2.0**-126, 2.0**126, 1e-35, 1e36, 0.0999, 1 / 3, 2.0**-124, 2.0**118, 2.0**120)


def check_real_numbers(board: Target, zero_point: int) -> None:
    """Close to the middle between two integers, and with scales whose reciprocals and products leave the usual range."""
    runs = []
    for scale in SCALES:
        with np.errstate(over="ignore", under="ignore"):
            x = numbers_around(scale)
        quantize = Quantize(x=float_value("x", x.shape), y=value("q", x.shape, scale, zero_point))
        back = Dequantize(x=value("q", (256,), scale, zero_point), y=float_value("x", (256,)))
        if kernel_of(board, quantize):
            runs += [Run(quantize, (x,)), Run(quantize, (x,), in_place=True)]
        runs.append(Run(back, (np.arange(-128, 128).astype(np.int8),)))
    assert len(runs) >= 3 * len(SCALES) - 2
    check_runs(board, runs)


@boards
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("zero_point", [-128, 7, 127])
def test_from_and_to_real_numbers(board: Target, zero_point: int) -> None:
    check_real_numbers(board, zero_point)


@boards
def test_every_example(board: Target) -> None:
    """Of all ops that these kernels take."""
    kinds = {kernel.op for kernel in board.kernels}
    ops = [op for cls in ALL_OPS if cls in kinds for op in cls.examples() if kernel_of(board, op)]
    assert {type(op) for op in ops} == kinds
    check(board, [op for op in ops if op.results[0].type.elements])


SANITIZED_C = Target(("scalar",), SANITIZED)


@pytest.mark.skipif(not HAS_CC, reason="needs a C compiler")
@pytest.mark.nightly
def test_the_c_without_assembly_is_clean() -> None:
    """On this computer, with sanitizers, among which is one for words at odd addresses."""
    ops = [
        conv2d((1, *PIXELS[i % 6], c), n, seed=i) for i, (c, n) in enumerate(product(IN_CHANNELS, (2, 3, 8)))
    ]
    check(SANITIZED_C, [*ops, *windows()])
    for kernel, stride, dilation in (((3, 3), 1, 1), ((5, 5), 2, 1), ((2, 4), 3, 2)):
        check(SANITIZED_C, depthwise_ops(kernel, stride, dilation))


@pytest.mark.turns(2)
@pytest.mark.skipif(not HAS_CC, reason="needs a C compiler")
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_real_numbers_by_clean_c() -> None:
    """With sanitizers, too."""
    check_real_numbers(SANITIZED_C, -5)


def test_refusals_name_the_rule() -> None:
    one = conv2d((1, 2, 2, 4), 1, seed=1)
    assert refusals(M3, one) == ["out_channels"]
