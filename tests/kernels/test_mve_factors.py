# SPDX-License-Identifier: Apache-2.0
"""What Helium's products of sums take for granted: a factor that is larger by one rounds halves away from zero, and changes no
other result within int8."""

from __future__ import annotations

import numpy as np
import pytest
from mve_cases import geometry, layer
from numpy.typing import NDArray

from pillion.emitters.c.mve.pack import MOST_SHIFT_OF_FACTORS, negative_sum_mode
from pillion.ir import numerics

ZERO_POINTS = (-128, -1, 0, 1, 127)


def numbers_near_halves(shift: int) -> NDArray[np.int64]:
    """All that lie around a half of a result, up to far beyond int8, and the ends of 32 bits."""
    reach = np.arange(-2048, 2048, dtype=np.int64)
    halves = (reach << shift) + ((1 << shift) >> 1)
    ends = 2 ** np.arange(10, 32, dtype=np.int64)
    around = [places + step for places in (halves, ends, -ends) for step in range(-3, 4)]
    return np.clip(np.concatenate(around), -(2**31), 2**31 - 1)


def by_definition(h: NDArray[np.int64], shift: int, zero_point: int) -> NDArray[np.int64]:
    return np.clip(numerics.shift_right(h, shift) + zero_point, -128, 127)


def by_factor(h: NDArray[np.int64], shift: int, zero_point: int) -> NDArray[np.int64]:
    """VQRDMLASH, and what narrows its results."""
    factor = min((1 << 31 - shift) + 1, 2**31 - 1)
    sums = (h * factor + (zero_point << 31) + (1 << 30)) >> 31
    return np.clip(np.clip(np.clip(sums, -(2**31), 2**31 - 1), -(2**15), 2**15 - 1), -128, 127)


@pytest.mark.parametrize("zero_point", ZERO_POINTS)
def test_larger_factors_round_halves_away_from_zero(zero_point: int) -> None:
    for shift in range(MOST_SHIFT_OF_FACTORS + 1):
        h = numbers_near_halves(shift)
        assert np.array_equal(by_factor(h, shift, zero_point), by_definition(h, shift, zero_point)), shift


def test_they_would_not_beyond() -> None:
    shift = MOST_SHIFT_OF_FACTORS + 1
    h = numbers_near_halves(shift)
    assert any(not np.array_equal(by_factor(h, shift, z), by_definition(h, shift, z)) for z in ZERO_POINTS)


@pytest.mark.parametrize(
    ("shifts", "clamp", "signs"),
    [
        ((-11, -1), (-128, 127), 1),
        ((-12, -12), (-128, 127), 0),
        ((-12, -12), (5, 127), 2),
        ((-8, -8), (5, 127), 2),
    ],
)
def test_the_mode_of_negative_sums(shifts: tuple[int, int], clamp: tuple[int, int], signs: int) -> None:
    rng = np.random.default_rng(0)
    case = layer(rng, geometry((2, 2), 8, 8), shifts=shifts, zps=(3, 5), clamp=clamp)
    assert negative_sum_mode(case.channels) == signs
    assert negative_sum_mode(case.channels, dot=False) == (2 if signs == 2 else 0)
