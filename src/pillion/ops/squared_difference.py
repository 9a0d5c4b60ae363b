# SPDX-License-Identifier: Apache-2.0
"""Squared differences, as TensorFlow files use them in layer norms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, op
from pillion.ir.types import Array
from pillion.ops.elementwise import Binary
from pillion.ops.example_values import ZERO_POINTS, example_pairs, make_op, value

LEFT_SHIFT = 7
"""Headroom in bits of the operands: the square of their difference still fits 31 bits."""


@op("squared_difference")
class SquaredDifference(Binary):
    """Squares the difference of two tensors: (a - b)². Both operands are rescaled to a common scale with 7 bits of
    headroom, the square to the result's scale. Both arithmetics agree."""

    is_identity = False

    @property
    def rescale(self) -> tuple[Multiplier, Multiplier, Multiplier]:
        """The multipliers of the first operand, the second operand, and the square."""
        common = 2 * max(self.a.scale, self.b.scale)
        square = common * common / (2 ** (2 * LEFT_SHIFT) * self.y.scale)
        first, second, out = numerics.encode_multipliers(
            (self.a.scale / common, self.b.scale / common, square)
        )
        return first, second, out

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield (numerics.INT8_STEPS << LEFT_SHIFT) ** 2, self.rescale[2].shift

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        first, second, out = self.rescale
        a, b = (
            numerics.requantize((x.astype(np.int64) - v.zero_point) << LEFT_SHIFT, m.mantissa, m.shift)
            for x, v, m in zip(operands, (self.a, self.b), (first, second), strict=True)
        )
        squares = numerics.requantize((a - b) * (a - b), out.mantissa, out.shift)
        return numerics.clamp_to_int8(squares + self.y.zero_point, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, a, b, _ in example_pairs():
            largest = 255 * max(a.scale, b.scale)
            y = value("y", (), largest * largest / 400, ZERO_POINTS[(number + 3) % 4])
            yield make_op(cls, y, a=a, b=b)
