# SPDX-License-Identifier: Apache-2.0
"""Log-softmax in fixed point, as LiteRT defines it: softmax's exponentials, and the logarithm of their sum by a
rational function of its mantissa."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.op import Op, Quantization, op
from pillion.ir.types import Array, DType, PerTensor
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.rowwise import Unary
from pillion.ops.softmax import (
    INPUT_BITS,
    LARGEST_STEP,
    SMALLEST_STEP,
    SUM_BITS,
    exp_of_negative,
    one_over_one_plus,
    smallest_difference,
)

OUTPUT = PerTensor(1 / 16, 127)
"""0 down to -16 in steps of 1/16."""
MOST_SUMMED = 2 ** (31 - 19) - 1
"""The maximum number of exponentials, 2^19 each in Q12, whose sum fits 32 bits."""
LOG_BITS = INPUT_BITS + 1
"""Integer bits of the logarithm's power of two, one spare against saturation."""
LOG_2, SQRT_HALF, ROOT_OF_SQRT_HALF = 1488522236, 1518500250, 1805811301
"""log 2, 2^-1/2 and 2^-1/4 in Q0.31."""
QUARTER = 1 << (31 - LOG_BITS - 2)
ALPHA_N, ALPHA_D, ALPHA_I, ALPHA_F = 117049297, 127690142, 1057819769, 638450708
"""Coefficients of the rational function in Q0.31: 11/240, 1/20, 2/2^1/2 - 1, 1/4, each times 2^1/4."""
BELOW_ONE = 1 - 2.0**-31
TO_LEVELS = 22
"""The right shift from Q5.26 to sixteenths."""


@op("log_softmax", quantization=Quantization.FIXED)
class LogSoftmax(Unary):
    """Computes the logarithm of softmax along the last axis; the result has steps of 1/16 from -15.94 to 0."""

    is_identity = False
    across_last = "each is measured against them all"

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from a difference of int8 values to Q5.26."""
        steps = self.x.scale * 2 ** (31 - INPUT_BITS)
        return numerics.encode_multiplier(min(max(steps, SMALLEST_STEP), LARGEST_STEP))

    @property
    def back(self) -> Multiplier:
        """The multiplier from Q5.26 to a difference of int8 values."""
        m = self.multiplier
        return numerics.encode_multiplier(min(2.0 ** (31 - m.shift) / m.mantissa, BELOW_ONE))

    def check_scales(self, arithmetic: Arithmetic) -> None:
        _ = self.multiplier, self.back

    @property
    def smallest_difference(self) -> int:
        """The distance below the largest value from which exponentials count as zero."""
        return smallest_difference(self.multiplier)

    def check(self) -> None:
        if self.x.type.rank < 1:
            raise self.refuse("the input has at least one axis", list(self.x.shape))
        if self.x.shape[-1] > MOST_SUMMED:
            raise self.refuse(f"the last axis has at most {MOST_SUMMED} elements", self.x.shape[-1])
        if self.x.dtype is DType.INT8 and self.y.quant != OUTPUT:
            raise self.refuse("the result has scale 1/16 and zero point 127", self.y.quant)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x = operands[0].astype(np.int64)
        difference = x - x.max(axis=-1, keepdims=True)
        counted = difference >= self.smallest_difference
        scaled = self.scaled(np.where(counted, difference, 0))
        exponential = np.where(counted, numerics.shift_right(exp_of_negative(scaled), SUM_BITS), 0)
        log = log_of_sum(exponential.sum(axis=-1, keepdims=True))
        lowest = numerics.multiply_high(log + numerics.INT32_MIN, self.back.mantissa)
        floor = numerics.shift_right(lowest, -self.back.shift)
        inside = difference > np.maximum(self.smallest_difference - 1, floor)
        levels = numerics.shift_right(self.scaled(np.where(inside, difference, 0)) - log, TO_LEVELS)
        return np.where(inside, numerics.clamp_to_int8(levels + 127, -128, 127), -128).astype(np.int8)

    def scaled(self, difference: Int64Array) -> Int64Array:
        """Converts differences of int8 values to Q5.26."""
        return numerics.multiply_high(difference << self.multiplier.shift, self.multiplier.mantissa)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = (
            ((1, 2), 0.1),
            ((2, 3, 7), 0.02),
            ((1, 33), 0.5),
            ((3, 1), 1.5),
            ((1, 1000), 0.004),
            ((2, 5), 40.0),
        )
        for number, (shape, scale) in enumerate(cases):
            x = value("x", shape, scale, ZERO_POINTS[number % 4])
            yield make_op(cls, value("y", (), OUTPUT.scale, OUTPUT.zero_point), x=x)


def log_of_sum(total: Int64Array) -> Int64Array:
    """Returns the logarithm in Q5.26 of numbers >= 1 in Q12.19."""
    leading = 31 - np.floor(np.log2(total)).astype(np.int64)
    mantissa = numerics.multiply_high(total << (leading - 1), SQRT_HALF)
    r_a = np.minimum(mantissa << 1, numerics.INT32_MAX)
    power_a = ((SUM_BITS - leading) << (31 - LOG_BITS)) + QUARTER
    root = numerics.multiply_high(total, SQRT_HALF)
    free = 30 - np.floor(np.log2(root)).astype(np.int64)
    r_b = np.minimum(total << free, numerics.INT32_MAX)
    power_b = ((SUM_BITS - free) << (31 - LOG_BITS)) - QUARTER
    power = numerics.multiply_high(np.maximum(power_a, power_b), LOG_2)
    of_rest = _log_near_one(np.minimum(r_a, r_b))
    return np.clip((power + of_rest) << 1, numerics.INT32_MIN, numerics.INT32_MAX)


def _log_near_one(r: Int64Array) -> Int64Array:
    """Computes the logarithm of numbers near 1 in Q6.25."""
    total = r + ROOT_OF_SQRT_HALF
    p = (total + np.where(total >= 0, 1, -1)) // 2
    q = 2 * (r - ROOT_OF_SQRT_HALF)
    square = numerics.multiply_high(q, q)
    numerator = numerics.multiply_high(q, r) + numerics.multiply_high(
        numerics.multiply_high(q, square), ALPHA_N
    )
    inner = ALPHA_I + q + numerics.multiply_high(ALPHA_D, square)
    rest = numerics.multiply_high(p, inner) + numerics.multiply_high(ALPHA_F, q)
    return numerics.multiply_high(numerics.shift_right(numerator, LOG_BITS), one_over_one_plus(rest))
