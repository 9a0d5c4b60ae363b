# SPDX-License-Identifier: Apache-2.0
"""16-bit sums, for residual streams: rows that differ in size by a factor of a hundred share a scale, and a norm
rescales each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant
from pillion.ops.elementwise import Binary
from pillion.ops.example_values import BROADCASTS, make

MULTIPLIER_BITS = 30
"""Bits of the larger multiplier."""
MOST_PLACES = 44
"""The maximum number of fraction bits of a multiplier."""
TYPES = (DType.INT8, DType.INT16)
STEPS = 256
"""16-bit steps per 8-bit step."""
STEPS_IN_LOOPS = 128
"""The same with room for twice the range: in loops, whose states may grow beyond what calibration saw."""


@op("wide_add")
class WideAdd(Binary):
    """Adds two tensors of which at least one, or the result, has 16 bits: a + b, or a - b with a sign of -1. Each
    operand is multiplied by a 31-bit integer; the 64-bit sum is rounded once, half up."""

    is_identity = False

    sign: int = 1

    @property
    def places(self) -> int:
        """The fraction bits of both multipliers."""
        largest = max(self.a.scale, self.b.scale) / self.y.scale
        return min(MULTIPLIER_BITS - math.ceil(math.log2(largest)), MOST_PLACES)

    @property
    def multipliers(self) -> tuple[int, int]:
        """The scale of each operand over the result's, with `places` fraction bits."""
        first, second = (
            int(numerics.round_half_away(v.scale / self.y.scale * 2.0**self.places)) for v in (self.a, self.b)
        )
        return first, self.sign * second

    @property
    def offset(self) -> int:
        """The constant added to the sum: all three zero points, and one half for rounding."""
        first, second = self.multipliers
        zeros = first * self.a.zero_point + second * self.b.zero_point
        return (self.y.zero_point << self.places) + (1 << self.places >> 1) - zeros

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.places < 1:
            raise ValueError(f"an operand in steps of {2.0**MULTIPLIER_BITS:.3g} of the result's, or more")

    def infer(self) -> TensorType:
        return TensorType(super().infer().shape, self.y.dtype)

    def check(self) -> None:
        types = [v.dtype for v in (self.a, self.b, self.y)]
        if not set(types) <= set(TYPES) or DType.INT16 not in types:
            dtypes = ", ".join(t.value for t in types)
            raise self.refuse("operands and result are int8 or int16, and one of them is int16", dtypes)
        if self.sign not in (1, -1):
            raise self.refuse("the sign is 1 or -1", self.sign)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) for x in operands)
        first, second = self.multipliers
        sums: Int64Array = (a * first + b * second + self.offset) >> self.places
        return np.clip(sums, *self.y.dtype.bounds).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[WideAdd]:
        for number, (a_shape, b_shape) in enumerate(BROADCASTS):
            for types in ((0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 0))[number % 2 :: 2]:
                a, b, y = (
                    wide_example_value(name, shape, TYPES[wide], number + index, ratio)
                    for index, (name, shape, wide, ratio) in enumerate(
                        zip("aby", (a_shape, b_shape, ()), types, (1.0, 0.31, 1.5), strict=True)
                    )
                )
                example = make(cls, y, a=a, b=b, sign=-1 if number % 3 == 2 else 1)
                assert isinstance(example, WideAdd)
                yield example


def requantize_by_adding_zero(x: Value, y: Value, name: str, source: str = "") -> WideAdd:
    """Returns an op that requantizes between 8 and 16 bits: a sum with a row of zeros."""
    zeros = constant(name, np.zeros(x.shape[-1:], np.int8), PerTensor(x.scale, 0))
    return WideAdd(a=x, b=zeros, y=y, source=source)


def wide_example_value(name: str, shape: tuple[int, ...], dtype: DType, number: int, ratio: float) -> Value:
    """Returns a value whose range is the same in 8 and in 16 bits."""
    low, high = dtype.bounds
    scale = 16.0 * ratio / (high - low + 1)
    return Value(name, TensorType(shape, dtype, PerTensor(scale, (low, 0, high, high // 3)[number % 4])))
