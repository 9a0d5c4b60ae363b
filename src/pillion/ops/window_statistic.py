# SPDX-License-Identifier: Apache-2.0
"""Statistics of windows about their mean, from exact sums, in mantissas and exponents until the only rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from pillion.ir import numerics
from pillion.ir.access import Access
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.op import Op, op, operand, result
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops.example_values import make_op
from pillion.ops.normalize import bit_lengths, reciprocal_root
from pillion.ops.reduce import reduced_shape, reduction_access

MOST_SAMPLES = 2**15
"""The maximum number of samples of a window: its variance times the squared number fits 60 bits."""
MEAN_BITS = 16
"""Fraction bits of a mean."""
DEVIATION_BITS = 12
"""Bits of the largest deviation in front of the point, MEAN_BITS behind it: all fourth powers together fit 64 bits."""
NARROW = 31
"""Bits of a mantissa."""
ROOT_EXPONENT, SQUARE_EXPONENT = -44.5, -89
"""The exponents of 1 / sqrt(variance) with a root in Q29, and of 1 / variance² with its fourth power in Q27."""
MOST_RESULT = 65535


class Statistic(Enum):
    """Statistics of a window."""

    DEVIATION = "deviation"
    PEAK = "peak"
    CREST = "crest"
    KURTOSIS = "kurtosis"


@op("window_statistic")
class WindowStatistic(Op):
    """Computes a statistic of windows along the last axis, about their mean: root mean square `deviation`, largest
    deviation (`peak`), their ratio (`crest`), or the fourth moment over the squared variance (`kurtosis`).

    Sums, sums of squares and extremes are exact; of the largest squared deviation at least 22 bits are squared again. The result is within one step of the real one; a constant window has a statistic of 0."""

    takes_int16 = True
    is_identity = False

    x: Value = operand()
    y: Value = result()
    statistic: Statistic

    @property
    def samples(self) -> int:
        """The number of samples of a window."""
        return self.x.shape[-1]

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from the product of a statistic's terms to steps of the result."""
        real, exponent = {
            Statistic.DEVIATION: (self.x.scale / self.samples, ROOT_EXPONENT),
            Statistic.PEAK: (self.x.scale / self.samples, 0),
            Statistic.CREST: (1.0, ROOT_EXPONENT),
            Statistic.KURTOSIS: (float(self.samples) ** 3, SQUARE_EXPONENT),
        }[self.statistic]
        fraction, shift = math.frexp(real * 2.0**exponent / self.y.scale)
        m = numerics.encode_multiplier(fraction)
        return Multiplier(m.mantissa, m.shift + shift)

    def access(self, operand: Value) -> Access:
        return reduction_access(
            operand, (operand.type.rank - 1,), False, "a statistic is that of all samples"
        )

    def infer(self) -> TensorType:
        return TensorType(reduced_shape(self.x.shape, (self.x.type.rank - 1,), False), self.x.dtype)

    def check(self) -> None:
        if not self.x.type.rank or not 1 <= self.samples <= MOST_SAMPLES:
            raise self.refuse(f"a window has 1 to {MOST_SAMPLES} samples", repr(self.x))
        if self.x.dtype not in (DType.INT8, DType.INT16, DType.FLOAT32):
            raise self.refuse("its operand is int8 or int16", self.x.dtype.value)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        count = self.samples
        x = operands[0].astype(np.int64).reshape(-1, count)
        sums, squares = x.sum(-1), (x * x).sum(-1)
        variances = count * squares - sums * sums
        peaks = np.maximum(count * x.max(-1) - sums, sums - count * x.min(-1))
        roots, halves = reciprocal_root(np.maximum(variances, 1))
        terms: Any = {
            Statistic.DEVIATION: lambda: (*_narrow(variances), roots, -halves),
            Statistic.PEAK: lambda: (peaks, 0, 1, 0),
            Statistic.CREST: lambda: (peaks, 0, roots, -halves),
            Statistic.KURTOSIS: lambda: self._fourth_moments(x, sums, peaks, roots, halves),
        }
        mantissas, exponents, factors, more = terms[self.statistic]()
        products, moved = _narrow(mantissas.astype(np.uint64) * np.asarray(factors).astype(np.uint64))
        m = self.multiplier
        right = np.clip(31 - m.shift - (exponents + more + moved), 1, 63)
        rounded = (products * m.mantissa + (1 << (right - 1))) >> right
        levels = np.where(variances > 0, np.minimum(rounded, MOST_RESULT), 0) + self.y.zero_point
        return np.clip(levels, *self.y.dtype.bounds).astype(self.y.dtype.numpy).reshape(self.y.shape)

    def _fourth_moments(
        self, x: Int64Array, sums: Int64Array, peaks: Int64Array, roots: Int64Array, halves: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Returns sums of fourth powers and reciprocals of squared variances, as mantissas and exponents."""
        places = DEVIATION_BITS - bit_lengths(peaks // self.samples)
        means = (sums << MEAN_BITS) // self.samples
        starts = means << np.maximum(places, 0) >> np.maximum(-places, 0)
        fine = numerics.wrap_to_32_bits((x << (MEAN_BITS + places)[:, None]) - starts[:, None])
        squares = numerics.high_word(fine, fine).astype(np.uint64)
        mantissas, moved = _narrow((squares * squares).sum(-1))
        inverse = (roots * roots >> 29).astype(np.uint64)
        fourths = (inverse * inverse >> np.uint64(NARROW)).astype(np.int64)
        return mantissas, moved, fourths, -4 * (halves + places)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = (
            ((3, 7), 0.02),
            ((2, 5, 33), 2.0**-15),
            ((1, 400), 0.25),
            ((1, 5, 3, 1), 1.0),
            ((17,), 2.0**-7),
            ((2, 3, 2, 11), 3.0),
        )
        for number, (shape, scale) in enumerate(cases):
            for place, statistic in enumerate(Statistic):
                dtype = (DType.INT8, DType.INT16)[(number + place) % 2]
                reach = 2 ** (8 * dtype.size_bytes)
                largest = {Statistic.CREST: 6.0, Statistic.KURTOSIS: 20.0}.get(statistic, scale * reach / 2)
                zero_point = (-reach // 2, 0, reach // 2 - 1, 5)[number % 4]
                x = Value("x", TensorType(shape, dtype, PerTensor(scale, (0, -reach // 2)[place // 2])))
                y = Value("y", TensorType((), dtype, PerTensor(largest / reach, zero_point)))
                yield make_op(cls, y, x=x, statistic=statistic)


def _narrow(values: Array) -> tuple[Int64Array, Int64Array]:
    """Returns mantissas of at most 31 bits, rounded down, and their exponents."""
    moved = np.maximum(bit_lengths(values) - NARROW, 0)
    return (values >> moved.astype(values.dtype)).astype(np.int64), moved
