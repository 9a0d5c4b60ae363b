# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolutions against the reference, byte for byte, on the emulated Cortex-M55."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from mve_cases import ConvGeometry, Layer, geometry, layer, with_a_tie, with_dead_channel, with_small_sums
from mve_variant import CHANNELS, Variant, check, random_layer, random_layers, under_test

from pillion.emitters.c.mve import depthwise_strips

pytestmark = pytest.mark.qemu

STRIPS = under_test("depthwise_3x3", depthwise=True)
STRIPS_2 = under_test("depthwise_3x3_stride2", depthwise=True)
WIDE = under_test("depthwise_any", depthwise=True)
LEFT = under_test("depthwise_any_left", depthwise=True)
WIDE_3X3 = under_test("depthwise_3x3_wide", depthwise=True)
VARIANTS = (STRIPS, STRIPS_2, WIDE, WIDE_3X3)
ANY_KERNEL = ((1, 1), (3, 3), (3, 3), (5, 5), (2, 3), (1, 7), (7, 1), (2, 2))


def stride(variant: Variant) -> tuple[int, int]:
    return (2, 2) if variant is STRIPS_2 else (1, 1)


def strip_layers(variant: Variant, seed: int) -> Iterator[Layer]:
    """Random padding, sizes from the smallest on, both ways round."""
    rng = np.random.default_rng(seed)
    for i in range(4000):
        size = int(rng.integers(1, 36)), int(rng.integers(1, 36))
        padding = tuple(int(p) for p in rng.integers(0, 3, 4))
        if min(s + padding[a] + padding[a + 2] for a, s in enumerate(size)) < 3:
            continue
        top, left, bottom, right = padding
        channels, images = int(rng.integers(1, 5)), int(rng.integers(1, 3))
        g = geometry(
            size,
            channels,
            channels,
            (3, 3),
            stride(variant),
            padding=(top, left, bottom, right),
            images=images,
        )
        zps = int(rng.choice([-128, -3, 0, 127])), int(rng.choice([-128, 4, 0, 127]))
        clamp = (-128, 127) if i % 2 else (-20, 80)
        yield layer(rng, g, depthwise=True, extreme=i % 3 == 0, zps=zps, clamp=clamp, shifts=(-9, -5))


@pytest.mark.turns(2)
@pytest.mark.parametrize("variant", [STRIPS, STRIPS_2], ids=lambda v: v.kernel)
@pytest.mark.parametrize("seed", range(3))
def test_strips_of_any_size(variant: Variant, seed: int) -> None:
    check(variant, islice(filter(variant.takes, strip_layers(variant, seed)), 80))


@pytest.mark.parametrize("variant", [STRIPS, STRIPS_2], ids=lambda v: v.kernel)
def test_strips_every_length(variant: Variant) -> None:
    rng = np.random.default_rng(4)
    sizes = [size for n in range(8, 42) for size in ((n, 3), (5, n), (n, n))]
    layers = (layer(rng, geometry(size, 2, 2, (3, 3), stride(variant)), depthwise=True) for size in sizes)
    check(variant, filter(variant.takes, layers))


@pytest.mark.parametrize("variant", [STRIPS, STRIPS_2], ids=lambda v: v.kernel)
def test_a_few_rows_of_a_large_image(variant: Variant) -> None:
    """One strip of three or four rows, all inside the image or some above or below it."""
    rng = np.random.default_rng(6)
    borders = [(0, 1, 0, 1), (1, 0, 0, 0), (0, 0, 1, 2), (1, 1, 1, 1)]
    layers = [
        layer(rng, geometry(size, 3, 3, (3, 3), stride(variant), padding=padding), depthwise=True)
        for rows in (2, 3, 4)
        for columns in (9, 16, 31)
        for size in ((rows, columns), (columns, rows))
        for padding in borders
        if min(size[0] + padding[0] + padding[2], size[1] + padding[1] + padding[3]) >= 3
    ]
    taken = [one for one in layers if variant.takes(one)]
    assert {bool(single) for single in map(single_strip, taken)} == {False, True}
    check(variant, taken)


def single_strip(made: Layer) -> int:
    """What the kernel is told of a single strip: its rows inside the image."""
    return depthwise_strips._single_strip_rows(depthwise_strips.strips_of(made.op()))


@pytest.mark.parametrize("seed", range(4))
def test_any_kernel(seed: int) -> None:
    check(WIDE, random_layers(WIDE, seed, ANY_KERNEL, CHANNELS))


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(4))
def test_3x3_wide(seed: int) -> None:
    check(WIDE_3X3, filter(WIDE_3X3.takes, random_layers(WIDE_3X3, seed, ((3, 3),), CHANNELS)))


@pytest.mark.parametrize("variant", [WIDE, WIDE_3X3], ids=lambda v: v.kernel)
def test_every_number_of_channels(variant: Variant) -> None:
    rng = np.random.default_rng(3)
    layers = [
        layer(rng, geometry((3, 4), c, c, (3, 3)), depthwise=True, extreme=c % 2 == 0) for c in CHANNELS
    ]
    check(variant, filter(variant.takes, layers))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
def test_several_filters_for_each_channel(variant: Variant) -> None:
    rng = np.random.default_rng(4)
    layers = [
        layer(rng, geometry(size, c, c * filters, (3, 3), stride(variant), images=2), depthwise=True)
        for size in [(9, 11), (7, 21)]
        for c, filters in [(1, 3), (2, 2), (3, 7), (5, 16), (7, 5), (2, 33), (17, 2)]
    ]
    taken = list(filter(variant.takes, layers))
    assert len(taken) >= 7
    check(variant, taken)
    assert not any(variant.in_place(case) for case in taken)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
def test_in_place(variant: Variant) -> None:
    rng = np.random.default_rng(5)
    sizes = [(9, 9), (12, 8), (7, 21), (16, 16)]
    layers = [
        layer(rng, geometry(size, c, c, (3, 3), stride(variant)), depthwise=True)
        for size in sizes
        for c in (1, 4, 15, 16, 33)
    ]
    check(variant, filter(variant.takes, layers), in_place=True)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
def test_every_right_shift(variant: Variant) -> None:
    rng = np.random.default_rng(5)
    g = geometry((16, 17), 3, 3, (3, 3), stride(variant))
    layers = [layer(rng, g, extreme=True, shifts=(-s, -s), depthwise=True) for s in range(1, 32)]
    check(variant, filter(variant.takes, layers))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
def test_dead_channel(variant: Variant) -> None:
    rng = np.random.default_rng(7)
    g = geometry((16, 17), 3, 3, (3, 3), stride(variant))
    check(
        variant,
        (with_dead_channel(layer(rng, g, zps=(3, zp), depthwise=True), 1) for zp in (-128, -5, 0, 127)),
    )


def test_plane_in_blocks_of_rows() -> None:
    rng = np.random.default_rng(8)
    g = geometry((40, 41), 5, 5, (3, 3), dilation=(2, 2))
    case = layer(rng, g, depthwise=True)
    assert not WIDE.in_place(case)
    check(WIDE, [case])


def depthwise(size: tuple[int, int], **geometry_of: tuple[int, int]) -> ConvGeometry:
    return geometry(size, 4, 4, **{"kernel": (3, 3), **geometry_of})  # type: ignore[arg-type]  # the options of a case


@pytest.mark.parametrize(
    ("variant", "rules", "refused"),
    [
        (STRIPS, ["kernel"], depthwise((16, 16), kernel=(5, 5))),
        (STRIPS, ["stride"], depthwise((17, 17), stride=(1, 2))),
        (STRIPS, ["dilation"], depthwise((16, 16), dilation=(2, 2))),
        (STRIPS, ["image"], depthwise((7, 7))),
        (STRIPS, ["padding"], geometry((16, 20), 4, 4, (3, 3), padding=(3, 0, 0, 0))),
        (STRIPS, ["row"], geometry((8, 5000), 16, 16, (3, 3))),
        (STRIPS_2, ["stride"], depthwise((16, 16))),
        (STRIPS_2, ["image"], depthwise((13, 13), stride=(2, 2))),
        (WIDE_3X3, ["kernel"], depthwise((8, 8), kernel=(3, 2))),
        (WIDE_3X3, ["dilation"], depthwise((8, 8), dilation=(2, 2))),
    ],
)
def test_refuses(variant: Variant, rules: Sequence[str], refused: ConvGeometry) -> None:
    case = layer(np.random.default_rng(0), refused, depthwise=True)
    assert variant.refusals(case) == rules


def test_refuses_two_taps_too_large_for_16_bits() -> None:
    case = layer(np.random.default_rng(0), depthwise((4, 4)), depthwise=True)
    case.channels.weights[1, :2] = -128
    assert WIDE.refusals(case) == ["weights"]


@pytest.mark.parametrize("variant", [STRIPS, STRIPS_2, WIDE_3X3], ids=lambda v: v.kernel)
def test_ratios_from_one_half_on(variant: Variant) -> None:
    rng = np.random.default_rng(12)
    g = geometry((17, 19), 20, 20, (3, 3), stride(variant))
    layers = (layer(rng, g, clamp=(-5, 127), shifts=(-s, 0), depthwise=True) for s in (0, 2, 12))
    check(variant, (with_small_sums(case, rng) for case in layers))


def test_left_shifts() -> None:
    """Of sums within int8 and beyond 32 bits."""
    rng = np.random.default_rng(14)
    shapes = [((3, 3), 3, 3), ((5, 2), 17, 34), ((2, 2), 20, 20)]
    sizes = [geometry((6, 7), *channels, kernel) for kernel, *channels in shapes]
    pairs = [(right, left) for right in (0, 4, 11) for left in (0, 1, 3, 30)]
    layers = [
        layer(rng, g, clamp=clamp, shifts=(-r, s), depthwise=True)
        for clamp in ((-128, 127), (-5, 127))
        for g in sizes
        for r, s in pairs
    ]
    check(LEFT, (case for one in layers for case in (with_small_sums(one, rng), one)))
    layers[0].channels.shifts[:] = -12, 1, 1
    assert LEFT.refusals(layers[0]) == ["right_shift"]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.kernel)
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_refuses_shifts_without_exact_fast_rounding(variant: Variant, shift: int) -> None:
    g = geometry((16, 17), 3, 3, (3, 3), stride(variant))
    case = layer(np.random.default_rng(0), g, shifts=(shift, shift), depthwise=True)
    assert variant.refusals(case) == ["right_shift"]


def test_refuses_sums_too_large_for_the_sign_fix() -> None:
    g = depthwise((16, 40))
    case = with_a_tie(g)
    assert STRIPS.refusals(case) == ["sum"]


def test_random_layer_covers_dilation_and_stride() -> None:
    rng = np.random.default_rng(0)
    shapes = [random_layer(rng, (3, 3), (4,), depthwise=True).geometry for _ in range(40)]
    assert {g.stride for g in shapes} >= {(1, 1), (2, 3)}
    assert {g.dilation[0] for g in shapes} == {1, 2, 3}
