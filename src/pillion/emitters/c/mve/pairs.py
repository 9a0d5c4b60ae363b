# SPDX-License-Identifier: Apache-2.0
"""Two-operand arithmetic by one multiply-add, with the proof that it is exact.

A sum of int8 values at three scales, rounded three times, is a function of 65536 pairs. For factors close to the ratios
of the scales, the constants c for which (a * x + b * y + c) >> 21 is that function at every pair are an interval; where it
is not empty, the formula is the function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.pair_factors import candidates
from pillion.ir import numerics

Int64Array = NDArray[np.int64]

PLACES = 21
"""Places of the shift: 16 and 5, each with rounding."""
ROUNDING = 2**15 + 2**20
"""What the two shifts of the kernel add."""
NEAR = 6
"""How far from the ratio of the scales a factor is looked for."""
LEVELS = np.arange(-128, 128, dtype=np.int64)


@dataclass(frozen=True)
class Factors:
    """The formula (a * x + b * y + constant) >> 21."""

    a: int
    b: int
    constant: int

    @property
    def kernel_constant(self) -> int:
        """The part of the constant that is left when the kernel's shifts have rounded."""
        return self.constant - ROUNDING


def find_factors(wanted: Int64Array, a_ratio: float, b_ratio: float) -> Factors | None:
    """Finds factors for the results wanted[x + 128, y + 128], which saturate at -128 and 127."""
    for a, b in candidates((a_ratio, b_ratio), PLACES, range(-NEAR, NEAR + 1)):
        constant = _constant(wanted, a * LEVELS[:, None] + b * LEVELS)
        if constant is not None:
            return Factors(a, b, constant)
    return None


def _constant(wanted: Int64Array, products: Int64Array) -> int | None:
    """A constant that is right for all pairs, if there is one with which all sums fit 32 bits."""
    least = ((wanted << PLACES) - products)[wanted > -128].max(initial=numerics.INT32_MIN)
    most = (((wanted + 1) << PLACES) - 1 - products)[wanted < 127].min(initial=numerics.INT32_MAX)
    constant = int(least + most) // 2
    lowest, highest = (int(end) + constant - ROUNDING for end in (products.min(), products.max()))
    fits = lowest >= numerics.INT32_MIN and highest <= numerics.INT32_MAX
    return constant if least <= most and fits else None
