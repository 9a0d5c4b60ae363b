# SPDX-License-Identifier: Apache-2.0
"""The Helium convolutions against the reference, byte for byte, on the emulated Cortex-M55."""

from __future__ import annotations

from collections.abc import Sequence

import mve_ops
import numpy as np
import pytest
from dsp_ops import transpose_conv2d_of_every_kind
from mve_cases import ConvGeometry, geometry, layer, with_dead_channel, with_small_sums
from mve_variant import CHANNELS, Variant, check, random_layers, under_test

from nightly import seeds

pytestmark = pytest.mark.qemu

POINTWISE = under_test("conv2d_1x1")
POINTWISE_16 = under_test("conv2d_1x1_k16", aligned=True)
POINTWISE_FEW = tuple(under_test(f"conv2d_1x1_k{inputs}") for inputs in (32, 48, 64))
IM2COL = under_test("conv2d_im2col")
IM2COL_16 = under_test("conv2d_im2col_k16", aligned=True)
IM2COL_FEW = tuple(under_test(f"conv2d_im2col_k{inputs}") for inputs in (32, 48, 64))
PLANES = under_test("conv2d_3x3")
FOURS = under_test("conv2d_3x3_fours", aligned=True)
LEFT = tuple(under_test(f"conv2d_{name}_left") for name in ("1x1", "im2col"))
VARIANTS = (POINTWISE, POINTWISE_16, IM2COL, IM2COL_16, PLANES, FOURS)


@pytest.mark.turns(3)
@pytest.mark.parametrize("pixels", [1, 2, 3, 7, 16])
def test_1x1_every_number_of_channels(pixels: int) -> None:
    rng = np.random.default_rng(pixels)
    shapes = [(c, 11) for c in CHANNELS] + [(19, c) for c in CHANNELS]
    check(
        POINTWISE,
        (layer(rng, geometry((1, pixels), *shape), extreme=i % 2 == 0) for i, shape in enumerate(shapes)),
    )


@pytest.mark.parametrize("pixels", [4, 5, 6, 7, 16])
def test_1x1_over_few_channels(pixels: int) -> None:
    rng = np.random.default_rng(pixels)
    shapes = [(c, 12) for c in range(1, 17)] + [(7, c) for c in range(4, 68, 4)]
    check(
        POINTWISE_16,
        (layer(rng, geometry((1, pixels), *shape), extreme=i % 2 == 0) for i, shape in enumerate(shapes)),
    )


ANY_KERNEL = ((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (2, 3), (1, 7), (7, 1), (10, 4), (4, 2))


@pytest.mark.turns(6)
@pytest.mark.parametrize("seed", seeds(9, today=1))
@pytest.mark.parametrize(
    ("variant", "kernels", "channels"),
    [
        (POINTWISE, ((1, 1),), CHANNELS),
        (POINTWISE_16, ((1, 1),), range(1, 17)),
        (IM2COL, ANY_KERNEL, (1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 33)),
        (IM2COL_16, ((3, 3), (2, 2), (4, 4), (1, 5), (1, 1)), (1, 2, 3, 4)),
        (PLANES, ((3, 3),), (16, 32, 48, 80)),
        (FOURS, ((3, 3),), (16, 32, 48, 80)),
        *((variant, ((1, 1),), CHANNELS) for variant in POINTWISE_FEW),
        *((variant, ANY_KERNEL, range(1, 13)) for variant in IM2COL_FEW),
    ],
    ids=lambda value: value.kernel if isinstance(value, Variant) else "",
)
def test_random_layers(
    variant: Variant, kernels: Sequence[tuple[int, int]], channels: Sequence[int], seed: int
) -> None:
    check(variant, random_layers(variant, seed, kernels, channels))


def test_3x3_fours_of_every_width() -> None:
    rng = np.random.default_rng(10)
    sizes = [(h, w) for h in (1, 2, 5) for w in range(4, 19)]
    check(
        FOURS, (layer(rng, geometry(size, 16 + w % 2 * 16, 12, (3, 3))) for size in sizes for w in size[1:])
    )


def test_3x3_every_width() -> None:
    rng = np.random.default_rng(8)
    sizes = [(h, w) for h in (1, 2, 5) for w in range(2, 19)]
    check(PLANES, (layer(rng, geometry(size, 16, 9, (3, 3))) for size in sizes))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
def test_every_right_shift(variant: Variant) -> None:
    rng = np.random.default_rng(5)
    g = geometry((4, 5), 16, 12, (3, 3) if variant in (PLANES, FOURS) else (1, 1))
    check(variant, (layer(rng, g, extreme=True, shifts=(-s, -s)) for s in range(1, 32)))


@pytest.mark.parametrize("variant", POINTWISE_FEW, ids=lambda v: v.kernel)
def test_1x1_every_number_of_inputs(variant: Variant) -> None:
    rng = np.random.default_rng(9)
    layers = (layer(rng, geometry((3, 5), c, 12), extreme=c % 2 == 0) for c in range(1, 70))
    check(variant, filter(variant.takes, layers))


def test_1x1_many_chunks() -> None:
    rng = np.random.default_rng(6)
    check(POINTWISE, (layer(rng, geometry((1, 3), 16 * c - 3, 8)) for c in range(1, 40)))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
def test_dead_channel(variant: Variant) -> None:
    rng = np.random.default_rng(7)
    g = geometry((4, 5), 16, 12, (3, 3) if variant in (PLANES, FOURS) else (1, 1))
    check(variant, (with_dead_channel(layer(rng, g, zps=(3, zp)), 4) for zp in (-128, -5, 0, 127)))


NO_PADDING = (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("variant", "rules", "refused"),
    [
        (POINTWISE, ["kernel"], geometry((4, 4), 8, 8, (3, 3), padding=NO_PADDING)),
        (POINTWISE, ["groups"], geometry((4, 4), 8, 8, groups=2)),
        (POINTWISE, ["padding"], geometry((4, 4), 8, 8, padding=(1, 0, 0, 0))),
        (POINTWISE, ["padding"], geometry((4, 4), 8, 8, padding=(0, 0, 0, 1))),
        (POINTWISE_16, ["in_channels"], geometry((4, 4), 17, 8)),
        (POINTWISE_16, ["out_channels"], geometry((4, 4), 16, 7)),
        (POINTWISE_16, ["pixels"], geometry((1, 3), 16, 8)),
        (POINTWISE_FEW[0], ["window"], geometry((4, 4), 16, 8)),
        (POINTWISE_FEW[2], ["window"], geometry((4, 4), 65, 8)),
        (IM2COL_FEW[1], ["window"], geometry((4, 4), 2, 8, (4, 4))),
        (IM2COL, ["groups"], geometry((4, 4), 8, 8, (3, 3), groups=2)),
        (IM2COL_16, ["window"], geometry((4, 4), 2, 8, (3, 3))),
        (PLANES, ["kernel"], geometry((4, 4), 16, 8, (3, 1))),
        (PLANES, ["dilation"], geometry((9, 9), 16, 8, (3, 3), dilation=(1, 2))),
        (PLANES, ["stride"], geometry((9, 9), 16, 8, (3, 3), stride=(1, 3))),
        (PLANES, ["in_channels", "out_channels"], geometry((9, 9), 8, 7, (3, 3))),
        (PLANES, ["pixels"], geometry((9, 1), 16, 8, (3, 3))),
        (FOURS, ["steps"], geometry((9, 9), 16, 8, (3, 3), stride=(1, 2))),
        (FOURS, ["fours", "row"], geometry((9, 3), 16, 9, (3, 3))),
    ],
)
def test_refuses(variant: Variant, rules: list[str], refused: ConvGeometry) -> None:
    case = layer(np.random.default_rng(0), refused)
    assert variant.refusals(case) == rules


EXACT, RECTIFIED = (-128, 127), (-5, 127)
OF_FACTORS = (POINTWISE, IM2COL, PLANES)


@pytest.mark.parametrize("variant", [*VARIANTS, POINTWISE_FEW[0], IM2COL_FEW[0]], ids=lambda v: v.kernel)
def test_ratios_from_one_half_on(variant: Variant) -> None:
    rng = np.random.default_rng(11)
    few, planes = variant in (POINTWISE_FEW[0], IM2COL_FEW[0]), variant in (PLANES, FOURS)
    g = geometry((4, 5), 32 if few else 16, 12, (3, 3) if planes else (1, 1))
    clamps = (RECTIFIED, *(EXACT for _ in "12" if few or variant in OF_FACTORS))
    layers = (layer(rng, g, clamp=clamp, shifts=(-s, 0)) for clamp in clamps for s in (0, 2, 5, 11))
    check(variant, (with_small_sums(case, rng) for case in layers))


@pytest.mark.parametrize("clamp", [EXACT, RECTIFIED], ids=["exact", "rectified"])
@pytest.mark.parametrize("variant", LEFT, ids=lambda v: v.kernel)
def test_left_shifts(variant: Variant, clamp: tuple[int, int]) -> None:
    """Of sums within int8 and beyond 32 bits."""
    rng = np.random.default_rng(13)
    shapes = [geometry((3, 5), inputs, outputs) for inputs, outputs in ((3, 12), (16, 7), (40, 21))]
    pairs = [(right, left) for right in (0, 4, 11) for left in (0, 1, 3, 30)]
    layers = [layer(rng, g, clamp=clamp, shifts=(-r, s)) for g in shapes for r, s in pairs]
    check(variant, (case for one in layers for case in (with_small_sums(one, rng), one)))


@pytest.mark.parametrize("variant", LEFT, ids=lambda v: v.kernel)
def test_refuses_left_shifts_next_to_a_sign_fix(variant: Variant) -> None:
    case = layer(np.random.default_rng(0), geometry((4, 5), 16, 12), extreme=True)
    case.channels.shifts[:] = np.resize((-12, 1), 12)
    assert variant.refusals(case) == ["right_shift"]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
@pytest.mark.parametrize(
    ("shifts", "clamp", "is_refused_by_factors"),
    [
        ((1, 1), EXACT, True),
        ((4, 4), RECTIFIED, True),
        ((-12, 0), EXACT, True),
        ((0, 0), EXACT, False),
    ],
)
def test_refuses_shifts_without_exact_fast_rounding(
    variant: Variant, shifts: tuple[int, int], clamp: tuple[int, int], is_refused_by_factors: bool
) -> None:
    g = geometry((4, 5), 16, 12, (3, 3) if variant in (PLANES, FOURS) else (1, 1))
    case = layer(np.random.default_rng(0), g, extreme=True, clamp=clamp)
    case.channels.shifts[:] = np.resize(shifts, 12)
    is_refused = is_refused_by_factors or variant not in OF_FACTORS
    assert variant.refusals(case) == ["right_shift"] * is_refused


def test_transposed_convolutions() -> None:
    """Widths that are multiples of the stride, and others."""
    ops = list(transpose_conv2d_of_every_kind((*range(1, 34), 64), (1, 2, 3, 5, 7, 8, 9, 16)))
    assert all(mve_ops.kernel_of(op) for op in ops)
    assert {op.y.shape[2] % op.stride[1] > 0 for op in ops} == {True, False}
    mve_ops.check(mve_ops.with_random_data(op, i) for i, op in enumerate(ops))
