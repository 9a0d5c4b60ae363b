# SPDX-License-Identifier: Apache-2.0
"""Exact integer arithmetic, for positions, token numbers and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, require_dtype
from pillion.ir.types import Array, DType, TensorType, Value, constant_value
from pillion.ops.elementwise import Binary
from pillion.ops.example_values import BROADCASTS, make_op

Wide = NDArray[np.int64]


class Calculation(Enum):
    """An operation on two integers."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    FLOOR_DIV = "floor_div"
    FLOOR_MOD = "floor_mod"
    TRUNC_DIV = "trunc_div"
    TRUNC_MOD = "trunc_mod"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHIFT_LEFT = "shift_left"
    SHIFT_RIGHT = "shift_right"


def _divide_towards_zero(a: Wide, b: Wide) -> Wide:
    """Divides, rounding towards zero; 0 if the divisor is 0."""
    return np.where(b == 0, 0, np.sign(a) * np.sign(b) * (np.abs(a) // np.where(b == 0, 1, np.abs(b))))


def _floor_divide(a: Wide, b: Wide) -> Wide:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _is_shift_amount(b: Wide) -> NDArray[np.bool_]:
    return (b >= 0) & (b < 32)


MEANINGS: Mapping[Calculation, Callable[[Wide, Wide], Wide]] = MappingProxyType(
    {
        Calculation.ADD: np.add,
        Calculation.SUB: np.subtract,
        Calculation.MUL: np.multiply,
        Calculation.MINIMUM: np.minimum,
        Calculation.MAXIMUM: np.maximum,
        Calculation.FLOOR_DIV: _floor_divide,
        Calculation.FLOOR_MOD: lambda a, b: a - b * _floor_divide(a, b),
        Calculation.TRUNC_DIV: _divide_towards_zero,
        Calculation.TRUNC_MOD: lambda a, b: a - b * _divide_towards_zero(a, b),
        Calculation.AND: np.bitwise_and,
        Calculation.OR: np.bitwise_or,
        Calculation.XOR: np.bitwise_xor,
        Calculation.SHIFT_LEFT: lambda a, b: np.where(_is_shift_amount(b), a << np.clip(b, 0, 31), 0),
        Calculation.SHIFT_RIGHT: lambda a, b: a >> np.where(_is_shift_amount(b), b, 31),
    }
)
"""Each operation in 64 bits; the lowest 32 bits are the result."""
NEUTRAL: Mapping[Calculation, int] = MappingProxyType(
    {
        **dict.fromkeys((Calculation.ADD, Calculation.SUB, Calculation.OR, Calculation.XOR), 0),
        **dict.fromkeys((Calculation.SHIFT_LEFT, Calculation.SHIFT_RIGHT), 0),
        **dict.fromkeys((Calculation.FLOOR_MOD, Calculation.TRUNC_MOD), 0),
        **dict.fromkeys((Calculation.MUL, Calculation.FLOOR_DIV, Calculation.TRUNC_DIV), 1),
        Calculation.AND: -1,
        Calculation.MINIMUM: DType.INT32.bounds[1],
        Calculation.MAXIMUM: DType.INT32.bounds[0],
    }
)
"""The second operand that returns the first one unchanged."""
EITHER_WAY = frozenset(
    {
        *(Calculation.ADD, Calculation.MUL, Calculation.MINIMUM, Calculation.MAXIMUM),
        *(Calculation.AND, Calculation.OR, Calculation.XOR),
    }
)
"""Commutative operations."""


@op("integer_arithmetic", quantization=Quantization.NONE)
class IntegerArithmetic(Binary):
    """Computes an exact 32-bit integer from two, element by element.

    Results that do not fit keep their lowest 32 bits, as in PyTorch's int32. Divisions round down (`floor_div`,
    `floor_mod`) or towards zero; division by 0 returns 0, and the remainder is then the dividend. Shift amounts
    are 0 to 31; for others, a left shift returns 0, a right shift the sign."""

    calculation: Calculation = Calculation.ADD

    @property
    def is_identity(self) -> bool:
        return self._passes_operand_through(self.a, self.b) or (
            self.calculation in EITHER_WAY and self._passes_operand_through(self.b, self.a)
        )

    def _passes_operand_through(self, passed_on: Value, neutral: Value) -> bool:
        array = neutral.constant if neutral.is_constant and passed_on.type == self.y.type else None
        return array is not None and np.array_equal(array, np.full_like(array, NEUTRAL[self.calculation]))

    def infer(self) -> TensorType:
        return TensorType(super().infer().shape, DType.INT32)

    def check(self) -> None:
        for value in (self.a, self.b):
            require_dtype(self, value, DType.INT32)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) for x in operands)
        with np.errstate(over="ignore"):
            wide = MEANINGS[self.calculation](a, b)
        return np.asarray(wide & 0xFFFFFFFF).astype(np.uint32).view(np.int32)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        y = Value("y", TensorType((), DType.INT32))
        for number, calculation in enumerate(Calculation):
            a_shape, b_shape = BROADCASTS[number % len(BROADCASTS)]
            a, b = (Value(n, TensorType(s, DType.INT32)) for n, s in (("a", a_shape), ("b", b_shape)))
            yield make_op(cls, y, a=a, b=b, calculation=calculation)
            a = Value("a", TensorType((3, 7), DType.INT32))
            for amount in (16, -7, 0, 31):
                b = constant_value("b", np.array([amount], np.int32))
                yield make_op(cls, y, a=a, b=b, calculation=calculation)
