# SPDX-License-Identifier: Apache-2.0
"""Two-operand arithmetic by one multiply-add, with the proof that it is exact.

A sum of int8 values at three scales, rounded three times, is a function of 65536 pairs. For factors near the
ratios of the scales, the constants c for which (a * x + b * y + c) >> 21 equals that function at every pair
form an interval; if it is not empty, the formula is exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.pair_factors import candidates
from pillion.ir import numerics

Int64Array = NDArray[np.int64]

PLACES = 21
"""The total right shift: 16 and 5, each with rounding."""
ROUNDING = 2**15 + 2**20
"""The sum of both rounding constants."""
NEAR = 6
"""The largest distance of a candidate factor from the ratio of the scales."""
LEVELS = np.arange(-128, 128, dtype=np.int64)


@dataclass(frozen=True)
class Factors:
    """The formula (a * x + b * y + constant) >> 21."""

    a: int
    b: int
    constant: int

    @property
    def kernel_constant(self) -> int:
        """The constant without the rounding that the kernel's shifts add."""
        return self.constant - ROUNDING


def find_factors(wanted: Int64Array, a_ratio: float, b_ratio: float) -> Factors | None:
    """Returns factors for the results wanted[x + 128, y + 128], which saturate at -128 and 127; None if there are
    none."""
    for a, b in candidates((a_ratio, b_ratio), PLACES, range(-NEAR, NEAR + 1)):
        constant = _constant(wanted, a * LEVELS[:, None] + b * LEVELS)
        if constant is not None:
            return Factors(a, b, constant)
    return None


def _constant(expected: Int64Array, products: Int64Array) -> int | None:
    """Returns a constant that is exact for all pairs and with which all sums fit 32 bits; None if there is none."""
    least = ((expected << PLACES) - products)[expected > -128].max(initial=numerics.INT32_MIN)
    most = (((expected + 1) << PLACES) - 1 - products)[expected < 127].min(initial=numerics.INT32_MAX)
    constant = int(least + most) // 2
    lowest, highest = (int(end) + constant - ROUNDING for end in (products.min(), products.max()))
    fits = lowest >= numerics.INT32_MIN and highest <= numerics.INT32_MAX
    return constant if least <= most and fits else None
