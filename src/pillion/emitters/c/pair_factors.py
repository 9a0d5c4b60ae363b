# SPDX-License-Identifier: Apache-2.0
"""The factors that are tried in (a * x1 + b * x2 + c) >> places for a sum at three scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

MOST_GROWTH = 16
"""How many steps the smaller factor grows in proportion."""


def candidates(slopes: tuple[float, float], places: int, near: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Gives pairs close to the slopes times 2**places: those that differ by the steps `near`, nearest first; then both larger or
    both smaller in proportion.

    The reference rounds ties away from zero. Where the ratios of the scales are small fractions, such as 1 : 4, the sum
    itself ties, above and below zero: its factors must be too large by a trifle, and for both the same one."""
    exact = tuple(slope * 2**places for slope in slopes)
    a, b = map(round, exact)
    steps = sorted(product(near, repeat=2), key=lambda step: abs(step[0]) + abs(step[1]))
    yield from ((a + da, b + db) for da, db in steps)
    least = min(map(abs, exact))
    growths = (
        [sign * growth / least for growth in range(1, MOST_GROWTH + 1) for sign in (1, -1)]
        if least >= 1
        else []
    )
    yield from ((round(exact[0] * (1 + growth)), round(exact[1] * (1 + growth))) for growth in growths)
