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
"""The shifts that are tried, in the order of their chances; a larger one is more precise until 32 bits overflow."""
NEARBY = sorted(range(-3, 4), key=abs)
"""How far from the ideal factors to look."""


@dataclass(frozen=True)
class Linear:
    """The formula (a * x1 + b * x2 + c) >> shift."""

    a: int
    b: int
    c: int
    shift: int


def find(wanted: Int64Array, slopes: tuple[float, float], low: int, high: int) -> Linear | None:
    """Finds a formula that gives `wanted[x1 + 128, x2 + 128]` for all pairs once its results are clamped to [low, high].

    `slopes` is how much one step of x1 and of x2 changes the result, about."""
    for shift in SHIFTS:
        for a, b in candidates(slopes, shift, NEARBY):
            c = _constant(wanted, a, b, shift, low, high)
            if c is not None:
                return Linear(a, b, c, shift)
    return None


def _constant(wanted: Int64Array, a: int, b: int, shift: int, low: int, high: int) -> int | None:
    """The constants with which all pairs come out right are an interval; its middle, if there is one."""
    linear = a * VALUES[:, None] + b * VALUES[None, :]
    if np.abs(linear).max() >= 2**31:
        return None
    least = np.where(wanted > low, (wanted << shift) - linear, -(2**62)).max()
    most = np.where(wanted < high, ((wanted + 1) << shift) - 1 - linear, 2**62).min()
    if least > most:
        return None
    middle = int(max(min((int(least) + int(most)) // 2, most), least))
    fits = linear.min() + middle >= -(2**31) and linear.max() + middle < 2**31
    return middle if fits and abs(middle) < 2**31 else None
