# SPDX-License-Identifier: Apache-2.0
"""The rounding modes of the NPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pillion.devices.ethos_u.stream.operations import Rounding
from pillion.ir.numerics import INT32_MAX, INT32_MIN, Int64Array, multiply_high, shift_right

_WHOLE = 31
"""A 32-bit scale is a fraction with 31 binary places."""


def scale_and_round(x: ArrayLike, number: ArrayLike, shift: ArrayLike, rounding: Rounding) -> Int64Array:
    """Returns `x * number / 2^shift` in a rounding mode of the NPU."""
    x, number, shift = (np.asarray(operand, np.int64) for operand in (x, number, shift))
    exact = x * number
    if rounding is Rounding.TRUNCATE:
        return np.sign(exact) * (np.abs(exact) >> shift)
    half_up = (exact + np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)) >> shift
    if rounding is Rounding.SYMMETRIC:
        return np.sign(exact) * (
            (np.abs(exact) + np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)) >> shift
        )
    if rounding is Rounding.NATURAL:
        return np.asarray(half_up)
    twice = shift_right(multiply_high(x, number), np.maximum(shift - _WHOLE, 0))
    return np.where(shift >= _WHOLE, twice, half_up)


def saturate32(x: Int64Array) -> Int64Array:
    """Returns the nearest 32-bit number."""
    return np.clip(x, INT32_MIN, INT32_MAX)


def leading_zeros(x: Int64Array) -> Int64Array:
    """Returns the number of leading zeros of 32-bit numbers; 0 for negative ones."""
    lengths = np.frexp(np.maximum(x, 0).astype(np.float64))[1]
    return np.where(x < 0, 0, 32 - lengths)
