# SPDX-License-Identifier: Apache-2.0
"""A cheap formula for functions of two int8 numbers, proven for every pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.pair_factors import candidates

Int64Array = NDArray[np.int64]

VALUES = np.arange(-128, 128, dtype=np.int64)
SHIFTS = (21, 22, 20, 23, 19, 18, 17)
"""The shifts in the order in which they are tried; larger ones are more precise until 32 bits overflow."""
NEARBY = sorted(range(-3, 4), key=abs)
"""The distances from the ideal factors that are tried."""


@dataclass(frozen=True)
class PairFormula:
    """The formula (a * x1 + b * x2 + c) >> shift."""

    a: int
    b: int
    c: int
    shift: int


def find(wanted: Int64Array, slopes: tuple[float, float], low: int, high: int) -> PairFormula | None:
    """Returns a formula for `wanted[x1 + 128, x2 + 128]` that is exact for all pairs after clamping to [low,
    high]; None if there is none.

    `slopes` are the approximate changes of the result for one step of x1 and of x2."""
    for shift in SHIFTS:
        for a, b in candidates(slopes, shift, NEARBY):
            c = _constant(wanted, a, b, shift, low, high)
            if c is not None:
                return PairFormula(a, b, c, shift)
    return None


def _constant(expected: Int64Array, a: int, b: int, shift: int, low: int, high: int) -> int | None:
    """Returns the middle of the interval of constants that are exact for all pairs; None if it is empty."""
    linear = a * VALUES[:, None] + b * VALUES[None, :]
    if np.abs(linear).max() >= 2**31:
        return None
    least = np.where(expected > low, (expected << shift) - linear, -(2**62)).max()
    most = np.where(expected < high, ((expected + 1) << shift) - 1 - linear, 2**62).min()
    if least > most:
        return None
    middle = int(max(min((int(least) + int(most)) // 2, most), least))
    fits = linear.min() + middle >= -(2**31) and linear.max() + middle < 2**31
    return middle if fits and abs(middle) < 2**31 else None
