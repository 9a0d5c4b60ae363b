# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolution by 5x5 against the reference, byte for byte, on the emulated Cortex-M55."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from mve_cases import ConvGeometry, Layer, geometry, layer, with_a_tie, with_dead_channel
from mve_variant import CLAMPS, Variant, case_of, check, some, under_test

from kernels import rig

pytestmark = pytest.mark.qemu

PLANE = under_test("depthwise_5x5", depthwise=True)
WIDE = under_test("depthwise_any", depthwise=True)
STRIDES = (1, 2)


def depthwise(size: tuple[int, int], stride: int = 1, channels: int = 3, images: int = 1) -> ConvGeometry:
    return geometry(size, channels, channels, (5, 5), (stride, stride), images=images)


def random_layers(seed: int) -> Iterator[Layer]:
    """Any padding up to the kernel, sizes from the smallest on."""
    rng = np.random.default_rng(seed)
    for i in range(4000):
        size = some(rng, range(1, 40)), some(rng, range(1, 40))
        top, left, bottom, right = (some(rng, range(5)) for _ in range(4))
        if size[0] + top + bottom < 5 or size[1] + left + right < 5:
            continue
        stride, channels = some(rng, STRIDES), some(rng, range(1, 6))
        padding, images = (top, left, bottom, right), some(rng, (1, 1, 2))
        g = geometry(size, channels, channels, (5, 5), (stride, stride), padding=padding, images=images)
        zps = some(rng, (-128, -3, 0, 127)), some(rng, (-128, 4, 0, 127))
        clamp = CLAMPS[some(rng, range(len(CLAMPS)))]
        yield layer(rng, g, depthwise=True, extreme=i % 3 == 0, zps=zps, clamp=clamp, shifts=(-11, -6))


@pytest.mark.parametrize("seed", range(3))
def test_any_size_and_padding(seed: int) -> None:
    check(PLANE, islice(filter(PLANE.takes, random_layers(seed)), 80))


@pytest.mark.parametrize("stride", STRIDES)
def test_every_length(stride: int) -> None:
    """From the smallest on, beyond two and three copies of 16 columns."""
    rng = np.random.default_rng(4)
    sizes = [size for n in range(4, 52) for size in ((n, 8), (9, n), (n, n))]
    layers = [layer(rng, depthwise(size, stride, channels=2), depthwise=True) for size in sizes]
    taken = list(filter(PLANE.takes, layers))
    assert len(taken) > 100
    check(PLANE, taken)


@pytest.mark.parametrize("stride", STRIDES)
def test_windows_of_padding_alone_are_exact(stride: int) -> None:
    """The image is behind as much padding as there may be, or almost."""
    rng = np.random.default_rng(9)
    layers = [
        layer(rng, geometry((1, 2), 2, 2, (5, 5), (stride, stride), padding=(p, q, 0, 0)), depthwise=True)
        for p in range(10, 24)
        for q in (7, 8, 20, 21, 22, 23)
    ]
    taken = list(filter(PLANE.takes, layers))
    assert len(taken) > 50
    check(PLANE, taken)


@pytest.mark.parametrize("stride", STRIDES)
def test_every_number_of_channels(stride: int) -> None:
    rng = np.random.default_rng(3)
    check(
        PLANE,
        [
            layer(rng, depthwise((8, 9), stride, channels=c), depthwise=True, extreme=c % 2 == 0)
            for c in range(1, 34)
        ],
    )


@pytest.mark.parametrize("stride", STRIDES)
def test_several_filters_for_each_channel(stride: int) -> None:
    rng = np.random.default_rng(4)
    layers = [
        layer(rng, geometry(size, c, c * filters, (5, 5), (stride, stride), images=2), depthwise=True)
        for size in [(9, 11), (8, 23)]
        for c, filters in [(1, 3), (3, 7), (5, 2), (2, 17)]
    ]
    check(PLANE, layers)


@pytest.mark.parametrize("stride", STRIDES)
def test_in_place(stride: int) -> None:
    rng = np.random.default_rng(5)
    sizes, channels = [(9, 9), (12, 8), (7, 21), (16, 16), (37, 35)], (1, 4, 15, 16, 33)
    layers = [
        layer(rng, depthwise(size, stride, channels=c, images=images), depthwise=True)
        for size in sizes
        for c in channels
        for images in (1, 2)
    ]
    check(PLANE, layers, in_place=True)


@pytest.mark.parametrize("stride", STRIDES)
def test_every_right_shift(stride: int) -> None:
    rng = np.random.default_rng(5)
    g = depthwise((16, 17), stride)
    check(PLANE, [layer(rng, g, extreme=True, shifts=(-s, -s), depthwise=True) for s in range(1, 32)])


def test_dead_channel() -> None:
    rng = np.random.default_rng(7)
    layers = (layer(rng, depthwise((9, 8)), zps=(3, zp), depthwise=True) for zp in (-128, -5, 0, 127))
    check(PLANE, (with_dead_channel(case, 1) for case in layers))


def test_least_weights_of_all() -> None:
    """Pairs of -128 are too much for 16 bits, but not for these sums."""
    case = layer(np.random.default_rng(0), depthwise((8, 8)), depthwise=True)
    case.channels.weights[:] = -128
    assert not WIDE.takes(case)
    check(PLANE, [case])


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        (["kernel"], geometry((16, 16), 4, 4, (5, 4))),
        (["stride"], geometry((17, 17), 4, 4, (5, 5), (1, 2))),
        (["stride"], geometry((17, 17), 4, 4, (5, 5), (3, 3))),
        (["dilation"], geometry((16, 16), 4, 4, (5, 5), dilation=(2, 2))),
        (["image"], depthwise((3, 30))),
        (["image"], depthwise((5, 3))),
        (["row"], depthwise((16, 16), channels=4370)),
    ],
)
def test_refuses(rules: Sequence[str], refused: ConvGeometry) -> None:
    case = layer(np.random.default_rng(0), refused, depthwise=True)
    assert PLANE.refusals(case) == rules


@pytest.mark.parametrize("shift", [0, 1, 4])
def test_refuses_shifts_without_exact_fast_rounding(shift: int) -> None:
    g = depthwise((16, 17))
    case = layer(np.random.default_rng(0), g, shifts=(shift, shift), depthwise=True)
    assert PLANE.refusals(case) == ["right_shift"]


def test_refuses_sums_too_large_for_the_sign_fix() -> None:
    g = depthwise((16, 40))
    case = with_a_tie(g)
    assert PLANE.refusals(case) == ["sum"]


@pytest.mark.parametrize(("size", "stride"), [((14, 14), 1), ((28, 28), 2), ((14, 14), 2), ((7, 7), 1)])
def test_takes_fewer_instructions_than_16_channels_at_a_time(size: tuple[int, int], stride: int) -> None:
    case = layer(np.random.default_rng(0), depthwise(size, stride, channels=16), depthwise=True)
    assert instructions(PLANE, case) < 0.7 * instructions(WIDE, case)


def instructions(variant: Variant, case: Layer) -> int:
    (result,) = rig.run(rig.M55, [case_of(variant, case)])
    return result.instructions
