# SPDX-License-Identifier: Apache-2.0
"""Candidate factors for (a * x1 + b * x2 + c) >> places, a sum at three scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

MOST_GROWTH = 16
"""The number of proportional steps, measured at the smaller factor."""


def candidates(slopes: tuple[float, float], places: int, near: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields factor pairs close to the slopes times 2**places: first those within the steps `near`, nearest first,
    then pairs scaled up or down in proportion.

    The reference rounds ties away from zero. Where the scales have small rational ratios, such as 1 : 4, the
    sum itself ties, on both sides of zero: both factors must then be slightly too large by the same proportion."""
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
