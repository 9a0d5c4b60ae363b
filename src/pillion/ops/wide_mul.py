# SPDX-License-Identifier: Apache-2.0
"""16-bit products: of gates and states in a loop, where rounding errors would accumulate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import op
from pillion.ir.types import Array
from pillion.ops.wide_add import WideBinary

PLACES = 32
"""Fraction bits of a product: the result is the upper word of 64 bits."""


@op("wide_mul")
class WideMul(WideBinary):
    """Multiplies two tensors, a · b, of which the first, or the result, has 16 bits. The first operand is
    multiplied by an integer, the second shifted left, so that both fill 32 bits; the result is the upper word
    of their 64-bit product, rounded half up."""

    ratios = (0.2, 0.31, 1.5)

    @property
    def ratio(self) -> float:
        """The result's steps per product of one step of each operand."""
        return self.a.scale * self.b.scale / self.y.scale

    @property
    def left(self) -> int:
        """The smallest left shift of the second operand with which the scaled first operand fits 32 bits; raises
        if the second one does not fit then."""
        reach = self.a.reach
        left = next(s for s in range(PLACES * 8) if self.factor(s) * reach <= numerics.INT32_MAX)
        if self.b.reach << left > numerics.INT32_MAX:
            raise ValueError(f"a product in steps of {self.ratio:.3g} of the result's")
        return left

    def factor(self, left: int) -> int:
        """Returns the factor of the first operand for a left shift of the second."""
        return int(numerics.round_half_away(self.ratio * 2.0 ** (PLACES - left)))

    @property
    def multiplier(self) -> int:
        """The factor of the first operand."""
        return self.factor(self.left)

    def check_scales(self, arithmetic: Arithmetic) -> None:
        self.left  # noqa: B018  # raises

    def check(self) -> None:
        super().check()
        if self.a.dtype.size_bytes < self.b.dtype.size_bytes:
            raise self.refuse("the first operand is not narrower than the second", f"{self.a!r}, {self.b!r}")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        products = (a * self.multiplier) * (b << self.left)
        levels = (products + (1 << PLACES >> 1) >> PLACES) + self.y.zero_point
        return np.clip(levels, *self.y.dtype.bounds).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[WideMul]:
        yield from cls.examples_of(((0, 0, 1), (1, 0, 1), (1, 1, 1), (1, 0, 0), (1, 1, 0)))
