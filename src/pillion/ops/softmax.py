# SPDX-License-Identifier: Apache-2.0
"""Softmax in fixed point: a Q5.26 exponential, a sum in Q12, a reciprocal by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier, Multipliers
from pillion.ir.op import Op, Quantization, ScaledOp, op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops.example_values import ZERO_POINTS, in_16_bits, make_op, value
from pillion.ops.rowwise import Unary
from pillion.ops.softmax16 import OUTPUT_16, multiplier_16, softmax_16

INPUT_BITS = 5
"""Integer bits of the exponential's argument."""
SUM_BITS = 12
"""Integer bits of the sum of exponentials."""
SMALLEST_STEP, LARGEST_STEP = 1.0, 2.0**30 - 1
"""The supported input scales, in Q5.26: left shifts of 1 to 30."""
OUTPUT = PerTensor(2.0**-8, -128)
"""The quantization that other runtimes fix for softmax results."""
OUTPUT_OF_8_BITS = PerTensor(2.0**-16, -(2**15))
"""The quantization of 16-bit shares of 8-bit operands."""
FINEST_SCALE = 2.0**-21
"""The finest scale of a result: the share of one among 8,192 still has all levels."""

OUTPUTS = tuple(
    PerTensor(part * 2.0**-steps, OUTPUT.zero_point)
    for steps in range(8, 21)
    for part in (1, 0.999, 0.7, 0.5001)
)
"""Scales of results for examples and tests: powers of two and numbers between them."""

EXP_MINUS_EIGHTH = 1895147668
"""exp(-1/8) in Q0.31."""
ONE_THIRD = 715827883
"""1/3 in Q0.31."""
BARREL = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2^k) in Q0.31 for k = -2 … 4."""
NEWTON_48_17, NEWTON_32_17 = 1515870810, -1010580540
"""48/17 and -32/17 in Q2.29."""


def is_share_quant(quant: PerTensor) -> bool:
    """Whether the int8 result of a softmax can have these parameters."""
    return quant.zero_point == OUTPUT.zero_point and FINEST_SCALE <= quant.scale <= OUTPUT.scale


@op("softmax", quantization=Quantization.FIXED)
class Softmax(ScaledOp, Unary):
    """Computes exp(x) over the sum of exp(x) along the last axis. int8 results have steps of 1/256 from -128, as in
    other runtimes, or finer ones, down to 2^-21, if every share is small; shares above 255 steps saturate. int16
    results have steps of 2^-15, or of 2^-16 from -32768 if the operand is int8."""

    takes_int16 = True

    is_identity = False
    across_last = "each is a share of them all"

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, DType.INT16 if self.y.dtype is DType.INT16 else self.x.dtype)

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from a difference of int8 values to Q5.26."""
        return self.effective_multipliers(Arithmetic.CMSIS_NN)[0]

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        """Returns the multiplier. Steps above 16 equal 16: the next probability is 0."""
        if self.x.dtype is DType.INT16:
            return (multiplier_16(self.x.scale),)
        steps = self.x.scale * 2 ** (31 - INPUT_BITS)
        return (numerics.encode_multiplier(min(max(steps, SMALLEST_STEP), LARGEST_STEP)),)

    def check_explicit(self) -> None:
        super().check_explicit()
        if self.multiplier.shift < 1:
            raise self.refuse(
                "the multiplier of a softmax shifts to the left, by 1 to 30", self.multiplier.shift
            )

    @property
    def places(self) -> int:
        """The right shift from a share in Q0.62 over a sum of 2^31 in Q12 to the power of two at or below a step
        of the result."""
        return SUM_BITS + 30 + math.frexp(self.y.scale)[1]

    @property
    def factor(self) -> int:
        """The Q0.31 factor of the reciprocal sum if a step of the result is not a power of two; 0 if it is, and
        nothing is multiplied."""
        part = 0.5 / math.frexp(self.y.scale)[0]
        return 0 if part == 1 else min(round(part * 2**31), numerics.INT32_MAX)

    @property
    def smallest_difference(self) -> int:
        """The distance below the largest value from which values count as zero."""
        return smallest_difference(self.multiplier)

    def check(self) -> None:
        if self.x.type.rank < 1:
            raise self.refuse("the input has at least one axis", list(self.x.shape))
        if self.x.dtype is DType.INT16 and self.y.type.quant != OUTPUT_16:
            raise self.refuse("16-bit results have zero point 0 and a scale of 2^-15", self.y.type.quant)
        if self.x.dtype is not DType.INT8:
            return
        if self.y.dtype is DType.INT16 and self.y.type.quant != OUTPUT_OF_8_BITS:
            rule = "16-bit results of an int8 operand have zero point -32768 and a scale of 2^-16"
            raise self.refuse(rule, self.y.type.quant)
        if self.y.dtype is DType.INT16:
            return
        if not is_share_quant(self.y.quant):
            raise self.refuse("the result has zero point -128, and a scale from 2^-21 to 1/256", self.y.quant)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        if self.x.dtype is DType.INT16:
            return softmax_16(operands[0], self.multiplier)
        x = operands[0].astype(np.int64)
        difference = x - x.max(axis=-1, keepdims=True)
        counted = difference >= self.smallest_difference
        m = self.multiplier
        scaled = numerics.multiply_high(np.where(counted, difference, 0) << m.shift, m.mantissa)
        exponential = np.where(counted, exp_of_negative(scaled), 0)
        total = numerics.shift_right(exponential, SUM_BITS).sum(axis=-1, keepdims=True)
        zeros = 32 - np.floor(np.log2(total)).astype(np.int64) - 1
        inverse = one_over_one_plus((total << zeros) - 2**31)
        if self.factor:
            inverse = numerics.multiply_high(inverse, self.factor)
        shift = self.places - zeros
        probability = numerics.shift_right(numerics.multiply_high(inverse, exponential), shift)
        low, high = self.y.dtype.bounds
        return np.where(counted, np.clip(probability + low, low, high), low).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        usual = ((shape, scale, OUTPUT.scale) for shape, scale in _SHAPES_AND_SCALES)
        for number, (shape, scale, step) in enumerate((*usual, *_FINER)):
            x = value("x", shape, scale, ZERO_POINTS[number % 4])
            yield make_op(cls, value("y", (), step, OUTPUT.zero_point), x=x)
            if number < len(_SHAPES_AND_SCALES):
                yield make_op(cls, Value("y", TensorType((), DType.INT16, OUTPUT_16)), x=in_16_bits(x))
                yield make_op(cls, Value("y", TensorType((), DType.INT16, OUTPUT_OF_8_BITS)), x=x)


def smallest_difference(multiplier: Multiplier) -> int:
    """Returns the distance below the largest value from which values count as zero."""
    return -math.floor(((2**INPUT_BITS - 1) * 2 ** (31 - INPUT_BITS)) / 2**multiplier.shift)


def exp_of_negative(a: Int64Array) -> Int64Array:
    """Returns exp(a) in Q0.31 for a <= 0 in Q5.26."""
    quarter = 1 << (31 - INPUT_BITS - 2)
    remainder = (a & (quarter - 1)) - quarter
    power = _exp_near_minus_eighth(remainder << INPUT_BITS)
    steps = remainder - a
    for k, factor in enumerate(BARREL):
        has_step = (steps >> (31 - INPUT_BITS - 2 + k)) & 1
        power = np.where(has_step, numerics.multiply_high(power, factor), power)
    return np.where(a == 0, numerics.INT32_MAX, power)


def _exp_near_minus_eighth(a: Int64Array) -> Int64Array:
    """Computes exp(a) for a in [-1/4, 0) in Q0.31, by a Taylor polynomial around -1/8."""
    x = a + (1 << 28)
    x2 = numerics.multiply_high(x, x)
    x3 = numerics.multiply_high(x2, x)
    x4_over_4 = numerics.shift_right(numerics.multiply_high(x2, x2), 2)
    tail = numerics.shift_right(numerics.multiply_high(x4_over_4 + x3, ONE_THIRD) + x2, 1)
    return EXP_MINUS_EIGHTH + numerics.multiply_high(EXP_MINUS_EIGHTH, x + tail)


def one_over_one_plus(a: Int64Array) -> Int64Array:
    """Returns 1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31."""
    half_denominator = (a + 2**31) >> 1
    x = NEWTON_48_17 + numerics.multiply_high(half_denominator, NEWTON_32_17)
    for _ in range(3):
        error = (1 << 29) - numerics.multiply_high(x, half_denominator)
        x = numerics.wrap_to_32_bits(x + numerics.wrap_to_32_bits(numerics.multiply_high(x, error) << 2))
    return np.minimum(x << 1, numerics.INT32_MAX)


_SHAPES_AND_SCALES = (
    *(((1, 2), 0.1), ((2, 3, 7), 0.02), ((1, 33), 0.5), ((3, 1), 1.5), ((1, 1000), 0.004), ((2, 5), 40.0)),
)
_FINER = (
    *(
        ((2, 9), 0.02, 2.0**-9),
        ((3, 40), 0.01, 2.0**-11),
        ((3, 41), 0.01, 0.258 / 255),
        ((5, 7), 0.03, 0.999 * 2.0**-8),
        ((1, 301), 0.003, 2.0**-15),
        ((2, 303), 0.003, 1.0001 * 2.0**-15),
        ((2, 1), 1.5, 2.0**-21),
        ((1, 8191), 1e-4, 2.0**-21),
    ),
)
