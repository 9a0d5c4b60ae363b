# SPDX-License-Identifier: Apache-2.0
"""Sums and differences by one multiply-add, with the proof that it is exact.

A sum of int8 values at three scales, rounded three times, is a function of 65536 pairs. For factors near the
ratios of the scales, the constants c for which (a * x1 + b * x2 + c) >> shift equals that function at every pair
form an interval; if it is not empty, the formula is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from pillion.emitters.c.table_lookup import EVERY_INT8
from pillion.ir.numerics import INT32_MAX, INT32_MIN, Arithmetic, Int64Array
from pillion.ir.verdict import Verdict
from pillion.ops.elementwise import AddOrSub

LEVELS = EVERY_INT8.astype(np.int64)
MOST_GROWTH = 16
"""The number of proportional steps, measured at the smaller factor."""


@dataclass(frozen=True)
class PairFormula:
    """The formula (a * x1 + b * x2 + c) >> shift."""

    a: int
    b: int
    c: int
    shift: int


@dataclass(frozen=True)
class FormulaSearch:
    """The formulas that a kernel can compute, in the order in which they are tried."""

    shifts: tuple[int, ...]
    near: Sequence[int]
    """The distances from the ideal factors."""
    constants: tuple[int, int]
    """The bounds of the constant if saturated results leave it open."""
    rounding: int = 0
    """The part of the constant that the kernel's shifts add."""
    clamps: bool = False
    """Whether the kernel clamps separately, so that the formula computes the full range."""

    def find(
        self, expected: Int64Array, slopes: tuple[float, float], low: int, high: int
    ) -> PairFormula | None:
        """Returns a formula for `expected[x1 + 128, x2 + 128]` that is exact for all pairs after clamping to [low,
        high]; None if there is none.

        `slopes` are the approximate changes of the result for one step of x1 and of x2."""
        for shift in self.shifts:
            for a, b in candidate_factors(slopes, shift, self.near):
                linear = a * LEVELS[:, None] + b * LEVELS
                constant = self._constant(expected, linear, shift, low, high)
                if constant is not None:
                    return PairFormula(a, b, constant, shift)
        return None

    def _constant(
        self, expected: Int64Array, linear: Int64Array, shift: int, low: int, high: int
    ) -> int | None:
        """Returns the middle of the interval of constants that are exact for all pairs; None if it is empty, or if
        sums do not fit 32 bits."""
        if np.abs(linear).max() > INT32_MAX:
            return None
        least = ((expected << shift) - linear)[expected > low].max(initial=self.constants[0])
        most = (((expected + 1) << shift) - 1 - linear)[expected < high].min(initial=self.constants[1])
        constant = (int(least) + int(most)) // 2
        lowest, highest = (int(end) + constant - self.rounding for end in (linear.min(), linear.max()))
        fits = lowest >= INT32_MIN and highest <= INT32_MAX and abs(constant) <= INT32_MAX
        return constant if least <= most and fits else None


def candidate_factors(
    slopes: tuple[float, float], places: int, near: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yields factor pairs close to the slopes times 2**places: first those within the steps `near`, nearest first,
    then pairs scaled up or down in proportion.

    The reference rounds ties away from zero. Where the scales have small rational ratios, such as 1 : 4, the
    sum itself ties, on both sides of zero: both factors must then be slightly too large by the same proportion."""
    exact = tuple(slope * 2**places for slope in slopes)
    a, b = map(round, exact)
    steps = sorted(product(near, repeat=2), key=lambda step: abs(step[0]) + abs(step[1]))
    yield from ((a + da, b + db) for da, db in steps)
    least = min(map(abs, exact))
    for growth in range(1, MOST_GROWTH + 1) if least >= 1 else ():
        for scale in (1 + growth / least, 1 - growth / least):
            yield round(exact[0] * scale), round(exact[1] * scale)


SHIFTED = FormulaSearch((21, 22, 20, 23, 19, 18, 17), (0, -1, 1, -2, 2, -3, 3), (-(2**62), 2**62))
"""One shift of any width; larger ones are more precise until 32 bits overflow."""
ROUNDED_TWICE = FormulaSearch(
    (21,), tuple(range(-6, 7)), (INT32_MIN, INT32_MAX), rounding=2**15 + 2**20, clamps=True
)
"""Shifts by 16 and by 5, each with rounding."""


@lru_cache(maxsize=256)
def sum_formula(op: AddOrSub, arithmetic: Arithmetic, search: FormulaSearch) -> PairFormula | None:
    """Returns the formula of a sum with its operands in their given order; None if no formula is exact."""
    full_range: Any = {"low": -128, "high": 127}
    op = replace(op, **full_range) if search.clamps else op
    expected = op.reference(arithmetic, EVERY_INT8[:, None], EVERY_INT8[None, :]).astype(np.int64)
    return search.find(expected, op.slopes, op.low, op.high)


def has_formula(op: AddOrSub, arithmetic: Arithmetic) -> Verdict:
    """Checks whether a cheap formula computes the sum of every pair of numbers."""
    exists = sum_formula(op, arithmetic, SHIFTED) is not None
    requirement = "(a x1 + b x2 + c) >> shift, right for all pairs"
    return Verdict("formula", exists, requirement, "found" if exists else "none found")


def has_factors(op: AddOrSub, arithmetic: Arithmetic) -> Verdict:
    """Checks whether two factors compute a sum exactly for all pairs."""
    exists = sum_formula(op, arithmetic, ROUNDED_TWICE) is not None
    return Verdict("factors", exists, "exact for all pairs", "found" if exists else "none")
