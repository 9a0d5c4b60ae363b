# SPDX-License-Identifier: Apache-2.0
"""Fixed-point functions of LiteRT's recurrent layers, rounded to 16 bits after every step.

A number with I integer bits is raw / 2^(15 - I). Results have no integer bits: they lie in [-1, 1]."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pillion.ir.numerics import Int64Array, shift_right

LEAST, MOST = -(2**15), 2**15 - 1
ONE = MOST
"""The integer that represents 1 without integer bits."""
TO_16 = 16
"""The right shift from 32-bit to 16-bit constants, rounded half away from zero."""


def from_32(constant: int) -> int:
    """Rounds a 32-bit constant to 16 bits."""
    return int(shift_right(constant, TO_16))


EXP_OF_MINUS_EIGHTH, THIRD = from_32(1895147668), from_32(715827883)
POWERS = tuple(map(from_32, (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)))
"""e to the power of -1/4, -1/2, -1, … -16."""
FIRST_POWER = -2
NEWTON_FIRST, NEWTON_SLOPE = from_32(1515870810), from_32(-1010580540)
"""48/17 and -32/17, with two integer bits."""
TWO_BITS_ONE = 1 << 13
"""1 with two integer bits."""


def saturate16(x: ArrayLike) -> Int64Array:
    """Saturates to 16 bits."""
    return np.clip(np.asarray(x, np.int64), LEAST, MOST)


def multiply_q15(a: ArrayLike, b: ArrayLike) -> Int64Array:
    """Returns a * b / 2^15, rounded half up; -1 times -1 saturates."""
    return np.minimum((np.asarray(a, np.int64) * np.asarray(b, np.int64) + 2**14) >> 15, MOST)


def exp_of_negative(x: ArrayLike, integer_bits: int) -> Int64Array:
    """Returns exp(x) for x <= 0: a polynomial for the part below a quarter, a table entry for each bit of the
    rest."""
    x, fraction_bits = np.asarray(x, np.int64), 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    beyond = (x & (quarter - 1)) - quarter
    result = _exp_of_quarter(saturate16(beyond << integer_bits))
    rest = beyond - x
    for number, power in enumerate(POWERS):
        if integer_bits > number + FIRST_POWER:
            has_bit = rest & (1 << (fraction_bits + number + FIRST_POWER))
            result = np.where(has_bit != 0, multiply_q15(result, power), result)
    if integer_bits > 5:
        result = np.where(x < -(1 << (fraction_bits + 5)), 0, result)
    return np.where(x == 0, ONE, result)


def _exp_of_quarter(x: Int64Array) -> Int64Array:
    """Computes exp on [-1/4, 0] by a Taylor polynomial around -1/8."""
    a = x + (1 << 12)
    a2 = multiply_q15(a, a)
    a3, a4 = multiply_q15(a2, a), multiply_q15(a2, a2)
    tail = shift_right(multiply_q15(shift_right(a4, 2) + a3, THIRD) + a2, 1)
    return saturate16(EXP_OF_MINUS_EIGHTH + multiply_q15(EXP_OF_MINUS_EIGHTH, a + tail))


def _two_over_one_plus(x: Int64Array) -> Int64Array:
    """Computes 2 / (1 + x) with two integer bits for x in [0, 1] by Newton's method."""
    half = shift_right(x + ONE, 1)
    estimate = NEWTON_FIRST + multiply_q15(half, NEWTON_SLOPE)
    for _ in range(3):
        error = TWO_BITS_ONE - multiply_q15(half, estimate)
        estimate = estimate + saturate16(multiply_q15(estimate, error) << 2)
    return estimate


def logistic16(x: ArrayLike) -> Int64Array:
    """Returns the logistic function of numbers with three integer bits."""
    return np.asarray(_logistic_table()[np.asarray(x, np.int64) - LEAST])


def tanh16(x: ArrayLike, integer_bits: int) -> Int64Array:
    """Returns the hyperbolic tangent."""
    return np.asarray(_tanh_table(integer_bits)[np.asarray(x, np.int64) - LEAST])


@lru_cache(maxsize=1)
def _logistic_table() -> Int64Array:
    x = np.arange(LEAST, MOST + 1)
    positive = saturate16(_two_over_one_plus(exp_of_negative(-np.abs(x), 3)) << 1)
    return np.where(x > 0, positive, np.where(x < 0, ONE - positive, 1 << 14))


@lru_cache(maxsize=8)
def _tanh_table(integer_bits: int) -> Int64Array:
    x = np.arange(LEAST, MOST + 1)
    one_over = _two_over_one_plus(exp_of_negative(-np.abs(x), integer_bits + 1))
    positive = saturate16((one_over - TWO_BITS_ONE) << 2)
    return np.where(x > 0, positive, np.where(x < 0, -positive, 0))
