# SPDX-License-Identifier: Apache-2.0
"""Clamps, with a change of scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op
from pillion.ir.types import Array
from pillion.ops.example_values import in_16_bits, make_op, rescale_examples, value
from pillion.ops.rowwise import Unary


@op("clamp")
class Clamp(Unary):
    """Clamps every value between two integers, after requantizing it if operand and result differ in scale or zero
    point.

    Under `tflite` the ratio of the scales is computed in float32, as in LiteRT's relu family."""

    takes_int16 = True

    low: int = -128
    high: int = 127

    @property
    def is_identity(self) -> bool:
        return (
            self.x.type == self.y.type
            and self.low <= self.y.dtype.bounds[0]
            and self.high >= self.y.dtype.bounds[1]
        )

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        if self.x.quant != self.y.quant:
            yield numerics.INT8_STEPS, numerics.encode_multiplier(self.x.scale / self.y.scale).shift

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        if self.x.quant == self.y.quant:
            return np.clip(operands[0], self.low, self.high).astype(self.y.dtype.numpy)
        real = numerics.scale_ratio(arithmetic, (self.x.scale,), self.y.scale)
        scaled = numerics.scale_by(operands[0].astype(np.int64) - self.x.zero_point, real)
        return numerics.clamp_to_int8(scaled + self.y.zero_point, self.low, self.high)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from rescale_examples(cls, {"low": -20, "high": 100}, {"low": -3})
        x = in_16_bits(value("x", (3, 7)))
        yield make_op(cls, x.like("y", shape=()), x=x, low=0, high=3000)
