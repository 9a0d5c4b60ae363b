# SPDX-License-Identifier: Apache-2.0
"""Leaky relu with a tensor of slopes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, op, operand, require_dtype
from pillion.ir.types import Array, Shape, Value
from pillion.ops.elementwise import is_constant_of
from pillion.ops.example_values import RATIOS, ZERO_POINTS, constant_like, make_op, value
from pillion.ops.rowwise import Unary


@op("prelu")
class Prelu(Unary):
    """Returns x where it is not negative, else slope · x. The slope is broadcast; at most one of its axes is
    larger than 1.

    Under `tflite` the ratios of the scales are computed in float32."""

    slope: Value = operand()

    @property
    def slope_shape(self) -> Shape:
        """The slope's shape with as many axes as x."""
        return (1,) * (self.x.type.rank - self.slope.type.rank) + self.slope.shape

    def multipliers(self, arithmetic: Arithmetic) -> tuple[Multiplier, Multiplier]:
        """Returns the multipliers of non-negative elements and of the products with the slope."""
        ratio = numerics.scale_ratio(arithmetic, (self.x.scale,), self.y.scale)
        product = numerics.scale_ratio(arithmetic, (self.x.scale, self.slope.scale), self.y.scale)
        return numerics.encode_multiplier(ratio), numerics.encode_multiplier(product)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        plain, sloped = self.multipliers(Arithmetic.CMSIS_NN)
        yield numerics.INT8_STEPS, plain.shift
        yield numerics.INT8_STEPS**2, sloped.shift

    def check(self) -> None:
        """Raises if operands do not fit. A constant slope may already be quantized while x is real."""
        if not (self.slope.is_constant and self.slope.is_quantized):
            require_dtype(self, self.slope, self.x.dtype)
        shape = self.slope_shape
        fits = len(shape) == self.x.type.rank and all(
            s in (1, d) for s, d in zip(shape, self.x.shape, strict=True)
        )
        if not fits or sum(s > 1 for s in shape) > 1:
            here = f"{list(self.slope.shape)} for {list(self.x.shape)}"
            raise self.refuse("the slope is one number, or one for each index of one axis", here)

    @property
    def is_identity(self) -> bool:
        """Whether no element can be negative, or all slopes are one."""
        if not self.x.is_quantized or self.x.type != self.y.type:
            return False
        return self.x.zero_point == -128 or is_constant_of(self.slope, 1.0)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x = operands[0].astype(np.int64) - self.x.zero_point
        slope = operands[1].astype(np.int64).reshape(self.slope_shape) - self.slope.zero_point
        plain, sloped = self.multipliers(arithmetic)
        positive = numerics.requantize(x, plain.mantissa, plain.shift)
        negative = numerics.requantize(x * slope, sloped.mantissa, sloped.shift)
        return numerics.clamp_to_int8(np.where(x >= 0, positive, negative) + self.y.zero_point, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (shape, slope_shape) in enumerate(PRELUS):
            for ratio in RATIOS[number % 2 :: 2]:
                x = value("x", shape, 0.0625, ZERO_POINTS[number % 4])
                slope = value(
                    "slope", slope_shape, 2.0**-7 if number % 2 else 0.0071, (0, 0, 127, -128)[number % 4]
                )
                if number != 4:
                    slope = constant_like(slope, number)
                y = value("y", (), x.scale / ratio, (x.zero_point, 5, -31, x.zero_point)[number % 4])
                yield make_op(cls, y, x=x, slope=slope)


PRELUS: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3, 5, 7), (7,)),
    ((1, 5, 3, 8), (1,)),
    ((2, 7, 5, 3), (7, 1, 1)),
    ((3, 11), (11,)),
    ((2, 9, 33), (1, 9, 1)),
    ((1, 5, 1), (1, 1)),
)
