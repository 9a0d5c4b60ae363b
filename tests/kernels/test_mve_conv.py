# SPDX-License-Identifier: Apache-2.0
"""The Helium convolutions against the reference, byte for byte, on the emulated Cortex-M55."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import mve_image
import numpy as np
import pytest
from mve_cases import Layer, geometry, layer, with_dead_channel

from pillion.emitters.c import mve_pack
from pillion.emitters.c.mve_pack import Params
from pillion.ir.verdict import failures

CHANNELS = (*range(1, 34), 63, 64, 65)
ZERO_POINTS = (-128, 0, 127)
CLAMPS = ((-128, 127), (-5, 127), (-5, 77), (-128, 30), (-3, -3))


def check(
    layers: Iterable[Layer], kernel: str, params: Callable[[Layer], Params], scratch: Callable[[Layer], int]
) -> None:
    """Runs all layers twice, with different bytes around them: neither may what lies behind an input count."""
    cases = list(layers)
    for filling in (0xA5, 0x7F):
        image = mve_image.Image(filling=filling)
        calls = [
            image.call(kernel, params(case), [case.x], case.expected(), scratch(case), offset=i % 5)
            for i, case in enumerate(cases)
        ]
        outcome = mve_image.run(image)
        for case, call in zip(cases, calls, strict=True):
            assert np.array_equal(outcome.output(call), case.expected()), case.label
        assert outcome.foreign_writes() == []


def check_1x1(layers: Iterable[Layer]) -> None:
    cases = list(layers)
    for case in cases:
        assert not failures(mve_pack.conv2d_1x1_verdicts(case.geometry, case.sums)), case.label
    check(
        cases,
        "pillion_conv2d_1x1_s8_mve",
        lambda case: mve_pack.conv2d_1x1_params(case.geometry, case.sums),
        lambda case: 0,
    )


def random_shapes(rng: np.random.Generator, count: int) -> Iterator[Layer]:
    for i in range(count):
        in_c, out_c = (int(c) for c in rng.choice(CHANNELS, 2))
        size, stride = (
            (int(rng.integers(1, 8)), int(rng.integers(1, 8))),
            (int(rng.integers(1, 4)), int(rng.integers(1, 4))),
        )
        g = geometry(size, in_c, out_c, stride=stride, padding=(0, 0, 0, 0), images=int(rng.integers(1, 3)))
        zps = int(rng.choice(ZERO_POINTS)), int(rng.choice(ZERO_POINTS))
        clamp = CLAMPS[int(rng.integers(len(CLAMPS)))]
        yield layer(rng, g, extreme=i % 3 == 0, zps=zps, clamp=clamp)


@pytest.mark.parametrize("pixels", (1, 2, 3, 7, 16))
def test_1x1_every_number_of_channels(pixels: int) -> None:
    rng = np.random.default_rng(pixels)
    shapes = [(c, 11) for c in CHANNELS] + [(19, c) for c in CHANNELS]
    check_1x1(layer(rng, geometry((1, pixels), *shape), extreme=i % 2 == 0) for i, shape in enumerate(shapes))


@pytest.mark.parametrize("seed", range(4))
def test_1x1_random_shapes(seed: int) -> None:
    check_1x1(random_shapes(np.random.default_rng(seed), 60))


def test_1x1_every_right_shift() -> None:
    rng = np.random.default_rng(5)
    g = geometry((3, 3), 300, 9)
    check_1x1(layer(rng, g, extreme=True, shifts=(-s, -s)) for s in range(1, 32))


def test_1x1_many_chunks() -> None:
    rng = np.random.default_rng(6)
    check_1x1(layer(rng, geometry((1, 3), 16 * c - 3, 8)) for c in range(1, 40))


def test_1x1_dead_channel() -> None:
    rng = np.random.default_rng(7)
    check_1x1(
        with_dead_channel(layer(rng, geometry((2, 3), 20, 10), zps=(3, zp)), 4) for zp in (-128, -5, 0, 127)
    )


@pytest.mark.parametrize(
    ("rule", "refused"),
    (
        ("kernel", geometry((4, 4), 8, 8, kernel=(3, 3), padding=(0, 0, 0, 0))),
        ("groups", geometry((4, 4), 8, 8, groups=2)),
        ("padding", geometry((4, 4), 8, 8, padding=(1, 0, 0, 0))),
        ("padding", geometry((4, 4), 8, 8, padding=(0, 0, 0, 1))),
    ),
)
def test_1x1_refuses(rule: str, refused: mve_pack.Geometry) -> None:
    case = layer(np.random.default_rng(0), refused)
    assert [v.rule for v in failures(mve_pack.conv2d_1x1_verdicts(refused, case.sums))] == [rule]


@pytest.mark.parametrize("shift", (0, 1, 4, -32))
def test_refuses_shifts_without_exact_fast_rounding(shift: int) -> None:
    case = layer(np.random.default_rng(0), geometry((2, 2), 8, 8), extreme=True, shifts=(shift, shift))
    refused = shift != -32  # so far to the right nothing is left: the channel is a constant
    assert bool(failures(mve_pack.conv2d_1x1_verdicts(case.geometry, case.sums))) is refused
