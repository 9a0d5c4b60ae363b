# SPDX-License-Identifier: Apache-2.0
"""An estimate as what it is: not one number, but the least and the most that it may be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Band:
    """A quantity that lies between two numbers, as far as the assumptions hold."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and 0 <= self.low <= self.high):
            raise ValueError(f"{self.low} to {self.high} is no band")

    def __add__(self, other: Band) -> Band:
        return Band(self.low + other.low, self.high + other.high)

    def __mul__(self, times: float) -> Band:
        return Band(self.low * times, self.high * times)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


NOTHING = Band(0, 0)


def total(bands: Iterable[Band]) -> Band:
    """Adds up bands: all may be low, or all high, at the same time."""
    return sum(bands, NOTHING)
