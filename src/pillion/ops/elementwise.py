# SPDX-License-Identifier: Apache-2.0
"""Two operands, element by element, broadcast as numpy does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.along import Along, Course
from pillion.ir.numerics import Arithmetic, Multiplier, Multipliers
from pillion.ir.op import Op, Quantization, Scaled, op, operand, result, want_same_quant
from pillion.ir.rows import Span, same_rows, why_no_rows
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops.samples import BROADCASTS, RATIOS, ZERO_POINTS, make, value

ADD_LEFT_SHIFT = 20
"""Headroom in bits for the sum of two rescaled int8 operands."""


def holds_only(value: Value, real: float) -> bool:
    """Whether a value is constant, and the same real number throughout."""
    if not value.is_constant:
        return False
    scale, zero_point = (value.scale, value.zero_point) if value.is_quantized else (1.0, 0)
    return bool(((value.constant.astype(np.float64) - zero_point) * scale == real).all())


class Binary(Op):
    """The shape rule of all ops with two operands."""

    a: Value
    b: Value
    y: Value

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
        """Raises where operands do not fit. A constant may be quantized already while the other operand is still a real number."""
        types = {v.dtype for v in (self.a, self.b) if not (v.is_constant and v.is_quantized)}
        if len(types) > 1:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")

    @property
    def crosses_rows(self) -> str:
        return why_no_rows(self.y, (self.a, self.b))

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return same_rows(operand, self.y, span)

    def along(self, operand: Value, axis: int) -> Course:
        return Along(axis + self.y.type.rank - operand.type.rank)

    def keeps(self, operand: Value, other: Value, real: float) -> bool:
        """Whether the result has the type of one operand, and the other one is constant and `real` throughout."""
        return operand.type == self.y.type and holds_only(other, real)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _binary_examples(cls)


class Sum(Binary, Scaled):
    """The base of a + b and a - b: both operands are brought to a common scale with 20 bits of headroom, then to the result's.
    There are three multipliers: of a, of b, and of the result."""

    low: int
    high: int
    sign: int = 1

    @property
    def rescale(self) -> tuple[Multiplier, Multiplier, Multiplier]:
        """The multipliers of the first operand, the second operand, and the result."""
        first, second, out = self.scaling(Arithmetic.CMSIS_NN)
        return first, second, out

    @property
    def numbers_of_multipliers(self) -> tuple[int, ...]:
        return (3,)

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        common = 2 * max(self.a.scale, self.b.scale)
        scales = self.a.scale / common, self.b.scale / common, common / (2**ADD_LEFT_SHIFT * self.y.scale)
        return numerics.encode_all(scales)

    def check_given(self) -> None:
        super().check_given()
        if max(m.shift for m in self.given[:2]) > 0:
            rule = "the operands of a sum are made smaller: their shifts are at most 0"
            raise self.refuse(rule, ", ".join(str(m.shift) for m in self.given[:2]))

    @property
    def slopes(self) -> tuple[float, float]:
        """How much the result grows with each operand, in real numbers."""
        if not self.given:
            return self.a.scale / self.y.scale, self.sign * self.b.scale / self.y.scale
        first, second, out = (m.real for m in self.given)
        return first * out * 2**ADD_LEFT_SHIFT, self.sign * second * out * 2**ADD_LEFT_SHIFT

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        """Each operand is at most half of the common scale; multipliers that were given may leave one as large as it is."""
        reach = numerics.INT8_STEPS << ADD_LEFT_SHIFT
        yield 2 * reach if self.given else reach, self.rescale[2].shift

    @property
    def is_idle(self) -> bool:
        """Whether zero is added to an operand, or taken from it. Multipliers that were given are not looked at for that."""
        if self.given:
            return False
        sums = self.keeps(self.a, self.b, 0.0) or (self.sign == 1 and self.keeps(self.b, self.a, 0.0))
        return sums and (self.low, self.high) == (-128, 127)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        first, second, out = self.rescale
        a, b = (
            numerics.requantize((x.astype(np.int64) - v.zero_point) << ADD_LEFT_SHIFT, m.mantissa, m.shift)
            for x, v, m in zip(operands, (self.a, self.b), (first, second), strict=True)
        )
        total = numerics.requantize(a + type(self).sign * b, out.mantissa, out.shift)
        return numerics.saturate(total + self.y.zero_point, self.low, self.high)


@op("add")
class Add(Sum):
    """Adds two tensors: a + b."""

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127


@op("sub")
class Sub(Sum):
    """Subtracts one tensor from another: a - b."""

    sign = -1

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127


@op("mul")
class Mul(Binary, Scaled):
    """Multiplies two tensors: a · b. Under `tflite` the ratio of the scales is formed in float32."""

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        """Gives the multiplier of the product of two integers."""
        return self.scaling(arithmetic)[0]

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        scales = (self.a.scale, self.b.scale)
        return (numerics.encode(numerics.ratio(arithmetic, scales, self.y.scale, float32_in_tflite=True)),)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield numerics.INT8_STEPS**2, self.multiplier(Arithmetic.CMSIS_NN).shift

    @property
    def is_idle(self) -> bool:
        """Whether an operand is multiplied by one. A multiplier that was given is not looked at for that."""
        if self.given:
            return False
        products = self.keeps(self.a, self.b, 1.0) or self.keeps(self.b, self.a, 1.0)
        return products and (self.low, self.high) == (-128, 127)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        m = self.multiplier(arithmetic)
        scaled = numerics.requantize(a * b, m.mantissa, m.shift)
        return numerics.saturate(scaled + self.y.zero_point, self.low, self.high)


class Extremum(Binary):
    """The base of minimum and maximum, which compare integers as they are, hence shared parameters."""

    beyond: int = 0
    """The int8 value that decides against itself whatever it is compared with."""

    def check(self) -> None:
        super().check()
        if self.a.dtype is DType.INT8:
            want_same_quant(self, self.a, self.b, self.y)

    @property
    def is_idle(self) -> bool:
        """Whether an operand is compared with a number beyond which no int8 value lies."""
        return any(
            held.is_constant and other.type == self.y.type and bool((held.constant == self.beyond).all())
            for held, other in ((self.a, self.b), (self.b, self.a))
            if held.dtype is DType.INT8
        )


@op("minimum", quantization=Quantization.SHARED)
class Minimum(Extremum):
    """Takes the smaller of a and b."""

    beyond = 127

    a: Value = operand()
    b: Value = operand()
    y: Value = result()

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.minimum(*operands)


@op("maximum", quantization=Quantization.SHARED)
class Maximum(Extremum):
    """Takes the larger of a and b."""

    beyond = -128

    a: Value = operand()
    b: Value = operand()
    y: Value = result()

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.maximum(*operands)


def _binary_examples(cls: type[Op]) -> Iterator[Op]:
    shared = cls.quantization.name == "SHARED"
    for number, (a_shape, b_shape) in enumerate(BROADCASTS):
        for ratio in RATIOS[number % 2 :: 2]:
            zero_point = ZERO_POINTS[number % 4]
            a = value("a", a_shape, 0.0625, zero_point)
            b = value(
                "b",
                b_shape,
                a.scale if shared else a.scale * ratio,
                zero_point if shared else ZERO_POINTS[(number + 1) % 4],
            )
            y = value(
                "y",
                (),
                a.scale if shared else a.scale * 1.5 if ratio != 0.5 else 0.125,
                zero_point if shared else ZERO_POINTS[(number + 3) % 4],
            )
            bounds = {"low": y.zero_point} if number == 1 and not shared else {}
            yield make(cls, y, a=a, b=b, **bounds)
