# SPDX-License-Identifier: Apache-2.0
"""Cost estimates as ranges: every estimate has a lower and an upper bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class CycleRange:
    """A quantity with a lower and an upper bound."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and 0 <= self.low <= self.high):
            raise ValueError(f"{self.low} to {self.high} is no band")

    def __add__(self, other: CycleRange) -> CycleRange:
        return CycleRange(self.low + other.low, self.high + other.high)

    def __mul__(self, times: float) -> CycleRange:
        return CycleRange(self.low * times, self.high * times)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


NOTHING = CycleRange(0, 0)


def sum_of_ranges(bands: Iterable[CycleRange]) -> CycleRange:
    """Returns the sum of ranges. Errors are assumed to be fully correlated: all terms may be low, or all
    high, together."""
    return sum(bands, NOTHING)
