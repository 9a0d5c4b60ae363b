# SPDX-License-Identifier: Apache-2.0
"""Inverse square roots of integers in fixed point, as LiteRT's integer kernels compute them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pillion.ir import numerics
from pillion.ir.numerics import Int64Array, multiply_high

SQRT_HALF = 1518500250
"""2^-1/2 in Q0.31."""
STEPS = 5
"""Steps of Newton's method."""


def inverse_square_root(number: ArrayLike) -> tuple[Int64Array, Int64Array]:
    """Returns mantissas and shifts of 1 / sqrt(n) for n from 0 to 2^31 - 1: five steps of x ← x · (3 - a·x²) / 2
    from x = 1 in Q3.28, where a is n times a power of 4. For 0 and 1 the result is the largest fraction below
    1."""
    n = np.asarray(number, np.int64)
    is_far = n >= 1 << 29
    near = np.where(is_far, n >> 2, np.maximum(n, 1))
    pairs = (29 - (np.floor(np.log2(near)).astype(np.int64) + 1)) // 2
    half_a = numerics.shift_right(near << (2 * pairs) >> 1, 1)
    x = np.full(n.shape, 1 << 28, np.int64)
    for _ in range(STEPS):
        cube = multiply_high(multiply_high(x, x), x) << 6
        x = (multiply_high(3 << 27, x) - multiply_high(half_a, cube)) << 3
    mantissa = np.where(n <= 1, numerics.INT32_MAX, multiply_high(x, SQRT_HALF))
    return mantissa, np.where(n <= 1, 0, pairs - 11 - is_far)
