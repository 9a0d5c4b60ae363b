# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops on two tensors, broadcast as in numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier, Multipliers
from pillion.ir.op import Op, Quantization, ScaledOp, op, operand, require_same_quant
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.example_values import BROADCASTS, ZERO_POINTS, example_pairs, in_16_bits, make_op, value
from pillion.ops.rowwise import RowWise
from pillion.ops.wide_arithmetic import (
    TYPES,
    WidePair,
    WideProduct,
    WideSum,
    Widths,
    has_16_bits,
    in_litert_form,
    wide_example_value,
)

ADD_LEFT_SHIFT = 20
"""Headroom in bits of the sum of two rescaled int8 operands."""
ADD_LEFT_SHIFT_16 = 15
"""Headroom in bits of the sum of two rescaled int16 operands."""


def is_constant_of(value: Value, real: float) -> bool:
    """Whether a value is constant and equals `real` everywhere."""
    if not value.is_constant:
        return False
    scale, zero_point = (value.scale, value.zero_point) if value.is_quantized else (1.0, 0)
    return bool(((value.constant.astype(np.float64) - zero_point) * scale == real).all())


def level_steps(value: Value) -> int:
    """Returns the largest difference of a level from its zero point."""
    return value.reach if value.dtype is DType.INT16 else numerics.INT8_STEPS


class Binary(RowWise):
    """The base class of elementwise ops with two operands."""

    a: Value = operand()
    b: Value = operand()

    def infer(self) -> TensorType:
        try:
            return TensorType(
                tuple(np.broadcast_shapes(self.a.shape, self.b.shape)),
                (self.activations or self.operands)[0].dtype,
            )
        except ValueError:
            shapes = f"{list(self.a.shape)} and {list(self.b.shape)}"
            raise self.refuse("shapes are equal or broadcast", shapes) from None

    def check(self) -> None:
        """Raises if operands do not fit. A constant may already be quantized while the other operand is real."""
        types = {v.dtype for v in (self.a, self.b) if not (v.is_constant and v.is_quantized)}
        if len(types) > 1:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")

    def keeps(self, operand: Value, other: Value, real: float) -> bool:
        """Whether the result has the type of one operand while the other one equals `real` everywhere."""
        return operand.type == self.y.type and is_constant_of(other, real)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        shared = cls.quantization is Quantization.SHARED
        for is_wide in (False, True) if cls.takes_int16 else (False,):
            for number, a, b, ratio in example_pairs(shared):
                scale = a.scale * 1.5 if ratio != 0.5 else 0.125
                y = a.like("y") if shared else value("y", (), scale, ZERO_POINTS[(number + 3) % 4])
                if is_wide:
                    a, b, y = map(in_16_bits, (a, b, y))
                high = {"high": y.dtype.bounds[1]} if is_wide else {}
                low = (
                    {"low": y.zero_point if number == 1 else y.dtype.bounds[0]}
                    if is_wide or number == 1
                    else {}
                )
                yield make_op(cls, y, a=a, b=b, **({} if shared else {**low, **high}))


class ScaledBinary(Binary, ScaledOp):
    """The base class of sums and products. If an operand or the result has 16 bits, widths may differ, and the arithmetic
    is our own, unless LiteRT's is wanted and has a form (`wide_arithmetic`)."""

    takes_int16 = True

    low: int = -128
    high: int = 127
    wide_examples: ClassVar[tuple[Widths, ...]] = ()
    """Which of two operands and a result have 16 bits in examples."""
    wide_ratios: ClassVar[tuple[float, float, float]] = (1.0, 0.31, 1.5)
    """The ranges of their operands and results."""

    @property
    def is_wide(self) -> bool:
        """Whether an operand or the result has 16 bits, and all have 8 or 16."""
        return has_16_bits((self.a, self.b, self.y))

    def has_own_int16_form(self, arithmetic: Arithmetic) -> bool:
        return self.is_wide and not in_litert_form(arithmetic, (self.a, self.b, self.y))

    @property
    def int16_form(self) -> WidePair:
        """The op in our own 16-bit arithmetic."""
        raise NotImplementedError

    @property
    def in_width_order(self) -> dict[str, Any]:
        """The tensors as the fields of a `WidePair`."""
        is_swapped = self.a.dtype.size_bytes < self.b.dtype.size_bytes
        a, b = (self.b, self.a) if is_swapped else (self.a, self.b)
        return {"a": a, "b": b, "y": self.y, "is_swapped": is_swapped}

    def infer(self) -> TensorType:
        inferred = super().infer()
        return TensorType(inferred.shape, self.y.dtype) if self.is_wide else inferred

    def check(self) -> None:
        if not self.is_wide:
            super().check()
        elif self.explicit:
            raise self.refuse(
                "16-bit ops have the multipliers of their scales", f"{len(self.explicit)} are given"
            )

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.has_own_int16_form(arithmetic):
            self.int16_form.check_scales()
        else:
            super().check_scales(arithmetic)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        """Yields the largest integers of int8 operands, and of LiteRT's 16-bit form; our own requantizes none."""
        if not self.has_own_int16_form(Arithmetic.TFLITE):
            yield self.largest_sum

    @property
    def largest_sum(self) -> tuple[int, int]:
        """The largest integer that is requantized, and the shift of its multiplier."""
        raise NotImplementedError

    def scaled(self, arithmetic: Arithmetic, *operands: Array) -> Int64Array:
        """Returns the result's levels with multipliers, not saturated and without its zero point."""
        raise NotImplementedError

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        if self.has_own_int16_form(arithmetic):
            levels = self.int16_form.levels(operands)
        else:
            levels = self.scaled(arithmetic, *operands) + self.y.zero_point
        return np.clip(levels, self.low, self.high).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from super().examples()
        for number, (a_shape, b_shape) in enumerate(BROADCASTS):
            for types in cls.wide_examples[number % 2 :: 2]:
                parts = zip("aby", (a_shape, b_shape, ()), types, cls.wide_ratios, strict=True)
                a, b, y = (
                    wide_example_value(name, shape, TYPES[wide], number + index, ratio)
                    for index, (name, shape, wide, ratio) in enumerate(parts)
                )
                low, high = y.dtype.bounds
                yield make_op(
                    cls,
                    y,
                    a=a,
                    b=b,
                    low=low if number % 3 or y.zero_point == high else y.zero_point,
                    high=high,
                )


class AddOrSub(ScaledBinary):
    """The base class of a + b and a - b: both operands are rescaled to a common scale with 20 bits of headroom, then
    to the result's scale. The three multipliers belong to a, to b, and to the result."""

    wide_examples = ((0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 0))

    sign: ClassVar[int] = 1

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from super().examples()
        a, b, y = (Value(name, TensorType((2, 3, 7), DType.INT16, PerTensor(0.01))) for name in "aby")
        yield cls(a=a, b=b, y=y, low=0, high=DType.INT16.bounds[1])

    @property
    def left_shift(self) -> int:
        """The headroom of the operands in bits."""
        return ADD_LEFT_SHIFT_16 if self.a.dtype is DType.INT16 else ADD_LEFT_SHIFT

    @property
    def int16_form(self) -> WideSum:
        return WideSum(**self.in_width_order, sign=self.sign)

    @property
    def rescale(self) -> tuple[Multiplier, Multiplier, Multiplier]:
        """The multipliers of the first operand, the second operand, and the result."""
        first, second, out = self.effective_multipliers(Arithmetic.CMSIS_NN)
        return first, second, out

    @property
    def numbers_of_multipliers(self) -> tuple[int, ...]:
        return (3,)

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        common = 2 * max(self.a.scale, self.b.scale)
        scales = self.a.scale / common, self.b.scale / common, common / (2**self.left_shift * self.y.scale)
        return numerics.encode_multipliers(scales)

    def check_explicit(self) -> None:
        super().check_explicit()
        if max(m.shift for m in self.explicit[:2]) > 0:
            rule = "the operands of a sum are made smaller: their shifts are at most 0"
            raise self.refuse(rule, ", ".join(str(m.shift) for m in self.explicit[:2]))

    @property
    def slopes(self) -> tuple[float, float]:
        """The derivative of the result with respect to each operand, in real numbers."""
        if not self.explicit:
            return self.a.scale / self.y.scale, self.sign * self.b.scale / self.y.scale
        first, second, out = (m.real for m in self.explicit)
        return first * out * 2**self.left_shift, self.sign * second * out * 2**self.left_shift

    @property
    def largest_sum(self) -> tuple[int, int]:
        """The bound for both operands: half of the common scale each, or their full range with explicit multipliers."""
        reach = level_steps(self.a) << self.left_shift
        return 2 * reach if self.explicit else reach, self.rescale[2].shift

    @property
    def is_identity(self) -> bool:
        """Whether zero is added or subtracted. Explicit multipliers are not examined."""
        if self.explicit:
            return False
        sums = self.keeps(self.a, self.b, 0.0) or (self.sign == 1 and self.keeps(self.b, self.a, 0.0))
        return sums and (self.low, self.high) == self.y.dtype.bounds

    def scaled(self, arithmetic: Arithmetic, *operands: Array) -> Int64Array:
        first, second, out = self.rescale
        a, b = (
            numerics.requantize((x.astype(np.int64) - v.zero_point) << self.left_shift, m.mantissa, m.shift)
            for x, v, m in zip(operands, (self.a, self.b), (first, second), strict=True)
        )
        return numerics.requantize(a + self.sign * b, out.mantissa, out.shift)


@op("add")
class Add(AddOrSub):
    """Adds two tensors: a + b. If one of them, or the result, has 16 bits, the 64-bit sum is rounded once, half up; with
    `tflite` arithmetic, three 16-bit tensors with zero point 0 are added as in LiteRT."""


class SumOfOne(AddOrSub):
    """A sum with an ignored second operand. Kernels of 16-bit sums compute `Requantize`, and `Mul` with a constant
    number, in this form; `scaling` has the number."""

    sign = 0

    scaling: WideSum | None = None

    @property
    def int16_form(self) -> WideSum:
        return self.scaling or super().int16_form


@op("sub")
class Sub(AddOrSub):
    """Subtracts one tensor from another: a - b. 16 bits are as in `add`."""

    sign = -1


@op("mul")
class Mul(ScaledBinary):
    """Multiplies two tensors: a · b. With `tflite` arithmetic the ratio of the scales is computed in float32. If an operand
    or the result has 16 bits, the 64-bit product is rounded once, half up, unless LiteRT's arithmetic covers it as in `add`."""

    wide_examples = ((0, 0, 1), (1, 0, 1), (1, 1, 1), (1, 0, 0), (1, 1, 0), (0, 1, 1))
    wide_ratios = (0.2, 0.31, 1.5)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from super().examples()
        for number, level in enumerate((127, -77)):
            x, y = (wide_example_value(name, (2, 3, 17), DType.INT16, number, 0.5) for name in "xy")
            factor = constant_value("b", np.array([level], np.int8), PerTensor(0.004, -3))
            yield make_op(cls, y, a=x, b=factor, low=DType.INT16.bounds[0], high=DType.INT16.bounds[1])

    @property
    def int16_form(self) -> WideProduct:
        return WideProduct(**self.in_width_order)

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        """Returns the multiplier of the product of two integers."""
        return self.effective_multipliers(arithmetic)[0]

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        scales = (self.a.scale, self.b.scale)
        return (numerics.encode_multiplier(numerics.scale_ratio(arithmetic, scales, self.y.scale)),)

    @property
    def largest_sum(self) -> tuple[int, int]:
        return level_steps(self.a) ** 2, self.multiplier(Arithmetic.CMSIS_NN).shift

    @property
    def is_identity(self) -> bool:
        """Whether an operand is multiplied by one. Explicit multipliers are not examined; 16-bit ones are not exact."""
        if self.explicit or self.is_wide:
            return False
        products = self.keeps(self.a, self.b, 1.0) or self.keeps(self.b, self.a, 1.0)
        return products and (self.low, self.high) == self.y.dtype.bounds

    def scaled(self, arithmetic: Arithmetic, *operands: Array) -> Int64Array:
        a, b = (x.astype(np.int64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        m = self.multiplier(arithmetic)
        return numerics.requantize(a * b, m.mantissa, m.shift)


class Extremum(Binary):
    """The base class of minimum and maximum. They compare integers directly, so operands and result share their
    parameters."""

    beyond: ClassVar[int] = 0
    """The int8 value that never wins the comparison."""
    combine: ClassVar[Callable[..., Array]]

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return type(self).combine(*operands)

    def check(self) -> None:
        super().check()
        if self.y.dtype in (DType.INT8, DType.INT16) and self.y.is_quantized:
            require_same_quant(self, self.a, self.b, self.y)

    @property
    def is_identity(self) -> bool:
        """Whether an operand is compared with a constant that never wins."""
        return any(
            limit.is_constant and other.type == self.y.type and bool((limit.constant == self.beyond).all())
            for limit, other in ((self.a, self.b), (self.b, self.a))
            if limit.dtype is DType.INT8
        )


@op("minimum", quantization=Quantization.SHARED)
class Minimum(Extremum):
    """Returns the smaller of a and b."""

    takes_int16 = True

    beyond = 127

    combine = staticmethod(np.minimum)


@op("maximum", quantization=Quantization.SHARED)
class Maximum(Extremum):
    """Returns the larger of a and b."""

    takes_int16 = True

    beyond = -128

    combine = staticmethod(np.maximum)
