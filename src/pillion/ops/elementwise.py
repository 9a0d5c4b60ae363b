# SPDX-License-Identifier: Apache-2.0
"""Two operands, element by element, broadcast as numpy does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, Quantization, op, operand, result, want_same_quant
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops import samples

ADD_LEFT_SHIFT = 20
"""Headroom in bits for the sum of two rescaled int8 operands."""


class Binary(Op):
    """Shape rule of all ops with two operands."""

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
        """A constant may be quantized already while the other operand is still a real number."""
        types = {v.dtype for v in (self.a, self.b) if not (v.is_constant and v.is_quantized)}
        if len(types) > 1:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from samples.binary_examples(cls)


class Sum(Binary):
    """a ± b: both operands are brought to a common scale with 20 bits of headroom, then to the result's."""

    low: int
    high: int
    sign: int = 1

    @property
    def rescale(self) -> tuple[Multiplier, Multiplier, Multiplier]:
        """Of the first operand, the second operand, and the result."""
        common = 2 * max(self.a.scale, self.b.scale)
        return (
            numerics.encode(self.a.scale / common),
            numerics.encode(self.b.scale / common),
            numerics.encode(common / (2**ADD_LEFT_SHIFT * self.y.scale)),
        )

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
    """a + b."""

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127


@op("sub")
class Sub(Sum):
    """a - b."""

    sign = -1

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127


@op("mul")
class Mul(Binary):
    """a · b. Under `tflite` the ratio of the scales is formed in float32."""

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        scales = (self.a.scale, self.b.scale)
        return numerics.encode(numerics.ratio(arithmetic, scales, self.y.scale, float32_in_tflite=True))

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        m = self.multiplier(arithmetic)
        scaled = numerics.requantize(a * b, m.mantissa, m.shift)
        return numerics.saturate(scaled + self.y.zero_point, self.low, self.high)


class Extremum(Binary):
    """Compares integers as they are, hence shared parameters."""

    def check(self) -> None:
        super().check()
        if self.a.dtype is DType.INT8:
            want_same_quant(self, self.a, self.b, self.y)


@op("minimum", quantization=Quantization.SHARED)
class Minimum(Extremum):
    """The smaller of a and b."""

    a: Value = operand()
    b: Value = operand()
    y: Value = result()

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.minimum(*operands)


@op("maximum", quantization=Quantization.SHARED)
class Maximum(Extremum):
    """The larger of a and b."""

    a: Value = operand()
    b: Value = operand()
    y: Value = result()

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.maximum(*operands)
