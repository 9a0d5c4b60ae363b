# SPDX-License-Identifier: Apache-2.0
"""The kernels for this computer's vectors against the reference, byte for byte: with every width of vectors that it has, and under
sanitizers, which see every access outside the memory of a case. (As they are compiled for programs: tests/test_native.py.)"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from dsp_ops import conv2d, depthwise, linear, with_pruned_channel
from scalar_operand_ops import operations

from kernels import rig
from kernels.op_cases import Run, check, check_runs, kernel_of, refusals
from kernels.rig import SANITIZED, Target, has_avx2, with_vectors
from nightly import part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.host import conv as host_conv
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Pair, PerChannel, Shape, constant_value
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.elementwise import Add, Mul, Sub
from pillion.ops.example_values import float_value, make_op, value
from pillion.ops.formats import Quantize
from pillion.ops.lut import Lut
from pillion.ops.movement import Transpose
from pillion.ops.unary_functions import Function

NARROW, VNNI = ("-mavx2", "-mfma"), ("-mavx2", "-mfma", "-mavxvnni")
WIDE = (*NARROW, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512vbmi")
"""Vectors of 32 bytes without and with products of bytes, and of 64 bytes."""


def target(name: str, flags: tuple[str, ...], *needed: str) -> Any:
    """A build of the kernels, where this computer can run it."""
    is_able = rig.HAS_CC and has_avx2("fma", *needed)
    marks = pytest.mark.skipif(not is_able, reason=f"needs cc and avx2 {' '.join(needed)}")
    return pytest.param(with_vectors(*flags), id=name, marks=marks)


BUILDS = [
    target("narrow", (*SANITIZED, *NARROW)),
    target("narrow_vnni", ("-O3", *VNNI), "avx_vnni"),
    target("wide", (*SANITIZED, *WIDE), "avx512_vnni", "avx512vbmi", "avx512bw", "avx512vl", "avx512dq"),
]
every_build = pytest.mark.parametrize("build", part_of(BUILDS[::-1], 3))
"""`make test` has the one with the most vectors."""

CHANNELS = (1, 3, 4, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 130)
IMAGES: tuple[Pair, ...] = ((1, 1), (1, 2), (5, 1), (2, 3), (7, 1), (1, 13), (5, 5), (3, 17))
KERNELS: tuple[Pair, ...] = ((3, 3), (1, 1), (2, 5), (5, 1), (1, 3), (4, 3), (4, 2), (5, 5), (9, 1))


def windows(cls: Any, kernel: Pair, seed: int, shape: Shape, *out: int, flat: bool) -> Any:
    """One with some stride, dilation and padding, so large that the window fits. A `flat` one has no dilation along its rows."""
    dilation = (1 + seed % 2, 1 if flat and kernel[1] > 1 else 1 + seed // 2 % 3)
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    least = [max(0, r + 1 - size) for r, size in zip(reach, shape[1:3], strict=True)]
    top, left = (max(need, seed % (r + 2)) for need, r in zip(least, reach, strict=True))
    padding = (top, left, seed // 3 % (reach[0] + 1), seed // 5 % (reach[1] + 1))
    fields = {"stride": (1 + seed % 3, 1 + seed // 3 % 3), "dilation": dilation, "padding": padding}
    return cls(shape, *out, kernel, seed=seed, **fields)


@pytest.mark.turns(10)
@every_build
def test_examples(build: Target) -> None:
    for arithmetic, cls in product(Arithmetic, dict.fromkeys(kernel.op for kernel in KERNELS_OF[Isa.HOST])):
        taken = [op for op in cls.examples() if kernel_of(build, op, arithmetic) is not None]
        if taken:
            check(build, taken, arithmetic=arithmetic)


# --- convolution ------------------------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@every_build
def test_pointwise(build: Target) -> None:
    """Every number of channels to every other, over any number of pixels, with any bounds."""
    sizes = list(product(CHANNELS, CHANNELS))
    check(build, [conv2d((1 + i % 2, *IMAGES[i % 8], c), n, seed=i) for i, (c, n) in enumerate(sizes)])


def conv_windows() -> list[Conv2d]:
    made = []
    for i, (kernel, image) in enumerate(product(KERNELS, IMAGES)):
        channels, out = CHANNELS[(3 * i + i // 8) % len(CHANNELS)], CHANNELS[5 * i % len(CHANNELS)]
        made.append(windows(conv2d, kernel, i, (1 + i % 2, *image, channels), out, flat=True))
    for stride in (2, 3, 5):  # the last columns of the image are in no window
        made += [conv2d((2, 5, 7 * stride, c), 9, (2, 1), seed=c, stride=(1, stride)) for c in (1, 2, 33)]
    return made


@every_build
def test_windows(build: Target) -> None:
    check(build, conv_windows())


@every_build
def test_many_strips(build: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of an image are not all copied at once: here only as few as there can be."""
    monkeypatch.setattr(host_conv, "STRIP_BYTES", 100)
    ops = [*conv_windows()[::3], conv2d((2, 7, 13, 5), 9), linear(37, 19, 70)]
    rows = [int(host_conv.conv_params(op)["strip_rows"]) for op in ops if isinstance(op, Conv2d)]  # type: ignore[arg-type]  # a number
    assert 1 in rows
    check(build, ops)


@every_build
def test_as_large_as_in_models(build: Target) -> None:
    """The shapes of MobileNetV2, ResNet and others, whose images take several strips."""
    ops = [
        conv2d((1, 56, 56, 24), 144, seed=1),
        conv2d((1, 7, 7, 960), 320, seed=2),
        conv2d((1, 61, 67, 3), 32, (3, 3), stride=(2, 2), padding=(1, 1, 1, 1), seed=3),
        conv2d((2, 16, 16, 64), 64, (3, 3), padding=(1, 1, 1, 1), seed=4),
        conv2d((1, 49, 10, 1), 64, (10, 4), stride=(2, 2), padding=(4, 1, 5, 1), seed=5),
        linear(1, 1280, 1000, seed=6),
        depthwise((1, 56, 56, 96), (3, 3), stride=(2, 2), padding=(0, 0, 1, 1), seed=7),
        depthwise((1, 14, 14, 240), (5, 5), padding=(2, 2, 2, 2), seed=8),
    ]
    check(build, ops)


@every_build
def test_sums_at_their_ends(build: Target) -> None:
    """Inputs that agree with the signs of all weights of a channel, and inputs of which none does."""
    runs = []
    for seed, out_zp in product(range(4), (-128, 3, 127)):
        for op in (
            conv2d((1, 3, 5, 67), 66, seed=seed, out_zp=out_zp),
            depthwise((1, 5, 7, 66), (3, 3), seed=seed, out_zp=out_zp),
        ):
            signs = op.weights_per_output[seed].reshape(-1) > 0
            row = signs if isinstance(op, Conv2d) else np.full(66, signs[0])
            for high, low in ((127, -128), (-128, 127)):
                runs.append(Run(op, (np.broadcast_to(np.where(row, high, low), op.x.shape).astype(np.int8),)))
    check_runs(build, runs)


@every_build
def test_channels_without_a_scale(build: Target) -> None:
    """Pruned channels have a multiplier of 0 or next to nothing."""
    ops = [with_pruned_channel(conv2d((1, 3, 3, 5), 18, seed=s), 7, bias) for s, bias in enumerate((0, 9999))]
    check(build, [*ops, with_pruned_channel(linear(3, 9, 20), 19, -5)])


@every_build
def test_roundings(build: Target) -> None:
    """Every sum from -128 to 127 times a power of two, which ties: sums below zero round away from it unless all of them become
    the zero point. And shifts by one."""
    runs = []
    for right, zp, less in product((1, 2, 3, 5), (-128, 0, 7), (0, 1, 300)):
        x, y = value("x", (1, 16, 16, 1), 1.0, 0), value("y", (), 2.0 ** (right + 1), zp)
        one = constant_value("weights", np.ones((1, 1, 1, 1), np.int8), PerChannel((1.0,), 0))
        fields = {
            "weights": one,
            "bias": constant_value("bias", np.zeros(1, np.int32)),
            "low": max(-128, zp - less),
        }
        op = make_op(Conv2d, y, x=x, **fields)
        assert op.multipliers[1].tolist() == [-right]  # type: ignore[attr-defined]  # a convolution
        runs.append(Run(op, (np.arange(-128, 128, dtype=np.int8).reshape(x.shape),)))
    check_runs(build, runs)


def test_no_shift_is_left_to_the_portable_kernel() -> None:
    """Nor sums that cannot be doubled, groups, and rows with holes."""
    plain = conv2d((1, 3, 5, 8), 4)
    y = value("y", plain.y.shape, 1e-4, 0)
    heavy = replace(plain, bias=constant_value("bias", np.full(4, 2**30, np.int32)))
    build = with_vectors()
    assert kernel_of(build, plain) is not None
    assert refusals(build, replace(plain, y=y)) == ["right_shift"]
    assert refusals(build, heavy) == ["sums"]
    assert refusals(build, conv2d((1, 3, 5, 8), 4, groups=2)) == ["groups"]
    assert refusals(build, conv2d((1, 3, 5, 8), 4, (1, 2), dilation=(1, 2))) == ["dilation"]
    assert refusals(build, depthwise((1, 3, 5, 8), (3, 3), multiplier=2)) == ["depth_multiplier"]
    assert refusals(build, linear(1, 3, 5), Arithmetic.TFLITE) == ["multiplier"]


# --- depthwise --------------------------------------------------------------------------------------------------------


@every_build
def test_depthwise(build: Target) -> None:
    """Every number of channels with every kernel."""
    made: list[DepthwiseConv2d] = []
    for i, (channels, kernel) in enumerate(product(CHANNELS, KERNELS)):
        made.append(windows(depthwise, kernel, i, (1 + i % 2, *IMAGES[i % 8], channels), flat=False))
    check(build, made)


# --- linear -----------------------------------------------------------------------------------------------------------


@every_build
def test_linear(build: Target) -> None:
    sizes = product((1, 2, 6, 7, 8, 13), (1, 4, 10, 65), (1, 9, 16, 64, 67))
    check(build, [linear(*size, seed=i) for i, size in enumerate(sizes)])


# --- element by element -----------------------------------------------------------------------------------------------

COUNTS = (2, 3, 15, 16, 31, 32, 33, 63, 64, 65, 129)
EVERY_PAIR = tuple(np.meshgrid(*[np.arange(-128, 128, dtype=np.int8)] * 2))


@pytest.mark.turns(3)
@every_build
@pytest.mark.parametrize("cls", [Add, Sub, Mul], ids=lambda cls: cls.kind)
def test_two_operands(build: Target, cls: Any) -> None:
    """All pairs of numbers, every count, in place, and rows again and again."""
    runs = []
    for i, (zp, out_zp, scale) in enumerate(product((-128, 3, 127), (-7, 90), (0.0437, 0.25))):
        a, b = value("a", (256, 256), 0.0513, zp), value("b", (256, 256), scale, -zp - 1)
        op = make_op(cls, value("y", (), 0.0811 * (1 + i % 3), out_zp), a=a, b=b, low=-90, high=100)
        runs += [Run(op, EVERY_PAIR)] if kernel_of(build, op) else []
    assert len(runs) > 6
    check_runs(build, runs)
    shapes: list[tuple[Shape, Shape]] = [((n,), (n,)) for n in COUNTS]
    shapes += [((5, 3, 9), (9,)), ((17,), (6, 17)), ((3, 70), (1, 70)), ((2, 3, 4), (3, 4))]
    ops = [
        make_op(cls, value("y", (), 0.0811, 5), a=value("a", a, 0.0513, 3), b=value("b", b, 0.0437, -9))
        for a, b in shapes
        for _ in range(2)
    ]
    check(build, ops)


@every_build
def test_tables(build: Target) -> None:
    x = [value("x", (n,), 0.05, 3) for n in (1, 64, 257)]
    check(
        build,
        [*operations(), *(make_op(Lut, value("y", (), 0.1, -5), x=v, function=Function.TANH) for v in x)],
    )


@every_build
def test_quantize(build: Target) -> None:
    """Ties, their neighbours, numbers that are none, and all else that 32 bits hold; every count."""
    runs = []
    for scale, zero_point in ((1.0, 0), (0.1, -128), (0.007, 127), (2.0**-4, 5), (3e-38, 0), (1e30, 0)):
        data = awkward_reals(float(np.float32(scale)))
        op = make_op(Quantize, value("y", (), scale, zero_point), x=float_value("x", data.shape))
        runs += [Run(op, (data,)), Run(op, (data,), in_place=True)]
    runs += [Run(op_of(n), (np.linspace(-20, 20, n).astype(np.float32),)) for n in COUNTS]
    check_runs(build, runs)


def op_of(count: int) -> Op:
    """Quantizes so many."""
    return make_op(Quantize, value("y", (), 0.1, 7), x=float_value("x", (count,)))


def awkward_reals(scale: float) -> Array:
    """Ties, what lies beside them, exponents, and any bits."""
    ties = (np.arange(-300, 300) + 0.5).astype(np.float32) * np.float32(scale)
    beside = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.4028235e38], np.float32)
    whole = np.random.default_rng(1).integers(0, 2**32, 4001, np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([ties, *beside, odd, -odd, whole])


@every_build
def test_planes_side_by_side(build: Target) -> None:
    shapes = [
        (n, rows, columns) for n in (1, 3) for rows in (2, 3, 4) for columns in (4, 15, 16, 33, 64, 197)
    ]
    ops = [
        make_op(Transpose, value("y", (), 0.1, 3), x=value("x", s, 0.1, 3), order=(0, 2, 1)) for s in shapes
    ]
    check(build, ops)
