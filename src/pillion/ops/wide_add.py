# SPDX-License-Identifier: Apache-2.0
"""16-bit sums, for residual streams: rows that differ in size by a factor of a hundred share a scale, and a norm
rescales each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.elementwise import Binary
from pillion.ops.example_values import BROADCASTS, make_op

TYPES = (DType.INT8, DType.INT16)
Widths = tuple[int, int, int]
"""Which of two operands and a result have 16 bits, as indices into TYPES."""
STEPS = 256
"""16-bit steps per 8-bit step."""
STEPS_IN_LOOPS = 128
"""The same with room for twice the range: in loops, whose states may grow beyond what calibration saw."""


class WideBinary(Binary):
    """The base class of ops with two operands, one of which, or the result, has 16 bits."""

    is_identity = False
    ratios: ClassVar[tuple[float, float, float]] = (1.0, 0.31, 1.5)
    """The ranges of operands and result in the examples."""

    def infer(self) -> TensorType:
        return TensorType(super().infer().shape, self.y.dtype)

    def check(self) -> None:
        types = [v.dtype for v in (self.a, self.b, self.y)]
        if not set(types) <= set(TYPES) or DType.INT16 not in types:
            dtypes = ", ".join(t.value for t in types)
            raise self.refuse("operands and result are int8 or int16, and one of them is int16", dtypes)

    @classmethod
    def examples_of(cls, widths: Sequence[Widths]) -> Iterator[Any]:
        """Yields an example per pair of shapes and every second row of `widths`."""
        for number, (a_shape, b_shape) in enumerate(BROADCASTS):
            for types in widths[number % 2 :: 2]:
                parts = zip("aby", (a_shape, b_shape, ()), types, cls.ratios, strict=True)
                a, b, y = (
                    wide_example_value(name, shape, TYPES[wide], number + index, ratio)
                    for index, (name, shape, wide, ratio) in enumerate(parts)
                )
                sign = {"sign": -1} if number % 3 == 2 and cls is WideAdd else {}
                yield make_op(cls, y, a=a, b=b, **sign)


@op("wide_add")
class WideAdd(WideBinary):
    """Adds two tensors of which at least one, or the result, has 16 bits: a + b, or a - b with a sign of -1. Each
    operand is multiplied by a 31-bit integer; the 64-bit sum is rounded once, half up."""

    sign: int = 1

    @property
    def places(self) -> int:
        """The fraction bits of both multipliers."""
        return numerics.shared_fraction_bits(max(self.a.scale, self.b.scale) / self.y.scale)

    @property
    def multipliers(self) -> tuple[int, int]:
        """The scale of each operand over the result's, with `places` fraction bits."""
        ratios = [v.scale / self.y.scale for v in (self.a, self.b)]
        first, second = numerics.to_fixed_point(ratios, self.places).tolist()
        return first, self.sign * second

    @property
    def offset(self) -> int:
        """The constant added to the sum: all three zero points, and one half for rounding."""
        first, second = self.multipliers
        zeros = first * self.a.zero_point + second * self.b.zero_point
        return (self.y.zero_point << self.places) + (1 << self.places >> 1) - zeros

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.places < 1:
            raise ValueError(
                f"an operand in steps of {2.0**numerics.MULTIPLIER_BITS:.3g} of the result's, or more"
            )

    def check(self) -> None:
        super().check()
        if self.sign not in (1, -1):
            raise self.refuse("the sign is 1 or -1", self.sign)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) for x in operands)
        first, second = self.multipliers
        sums: Int64Array = (a * first + b * second + self.offset) >> self.places
        return np.clip(sums, *self.y.dtype.bounds).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[WideAdd]:
        yield from cls.examples_of(((0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 0)))


def requantize_by_adding_zero(x: Value, y: Value, name: str, source: str = "") -> WideAdd:
    """Returns an op that requantizes between 8 and 16 bits: a sum with a row of zeros."""
    zeros = constant_value(name, np.zeros(x.shape[-1:], np.int8), PerTensor(x.scale, 0))
    return WideAdd(a=x, b=zeros, y=y, source=source)


def wide_example_value(name: str, shape: tuple[int, ...], dtype: DType, number: int, ratio: float) -> Value:
    """Returns a value whose range is the same in 8 and in 16 bits."""
    low, high = dtype.bounds
    scale = 16.0 * ratio / (high - low + 1)
    return Value(name, TensorType(shape, dtype, PerTensor(scale, (low, 0, high, high // 3)[number % 4])))
