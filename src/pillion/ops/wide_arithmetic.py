# SPDX-License-Identifier: Apache-2.0
"""Sums and products in our own 16-bit arithmetic: operands and results may differ in width, and results are rounded once.

Residual streams need it, whose rows differ in size by a factor of a hundred and share a scale, and states of loops, where
rounding errors would accumulate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value

TYPES = (DType.INT8, DType.INT16)
Widths = tuple[int, int, int]
"""The widths of two operands and a result, as indices into TYPES."""
STEPS = 256
"""16-bit steps per 8-bit step."""
STEPS_IN_LOOPS = 128
"""16-bit steps per 8-bit step in loops, with room for twice the range: states may grow beyond calibration."""
PLACES = 32
"""Fraction bits of a product: the result is the upper word of 64 bits."""


def has_16_bits(values: Iterable[Value]) -> bool:
    """Whether all tensors are int8 or int16, and at least one is int16."""
    types = {v.dtype for v in values}
    return types <= set(TYPES) and DType.INT16 in types


def in_litert_form(arithmetic: Arithmetic, values: Iterable[Value]) -> bool:
    """Whether LiteRT's arithmetic is wanted and covers these tensors: all have 16 bits and zero point 0."""
    return arithmetic.is_tflite and all(v.dtype is DType.INT16 and not v.zero_point for v in values)


@dataclass(frozen=True)
class WidePair:
    """Two operands and a result, the wider operand first."""

    a: Value
    b: Value
    y: Value
    is_swapped: bool
    """Whether the op has the operands in the other order."""

    def integers(self, operands: Sequence[Array]) -> tuple[Int64Array, Int64Array]:
        """Returns the integers of the op's operands, the wider operand first."""
        first, second = operands[:: -1 if self.is_swapped else 1]
        return first.astype(np.int64), second.astype(np.int64)

    def check_scales(self) -> None:
        """Raises a ValueError if the ratio of the scales has no multiplier."""
        raise NotImplementedError

    def levels(self, operands: Sequence[Array]) -> Int64Array:
        """Returns the result's levels, not saturated."""
        raise NotImplementedError


@dataclass(frozen=True)
class WideSum(WidePair):
    """Each operand is multiplied by a 31-bit integer; the 64-bit sum is rounded once, half up."""

    sign: int
    """-1 for the op's first operand less its second; 0 if the second one does not count."""

    @property
    def places(self) -> int:
        """The fraction bits of both multipliers."""
        return numerics.shared_fraction_bits(max(self.a.scale, self.b.scale) / self.y.scale)

    def check_scales(self) -> None:
        if self.places < 1:
            raise ValueError(
                f"an operand in steps of {2.0**numerics.MULTIPLIER_BITS:.3g} of the result's, or more"
            )

    @property
    def multipliers(self) -> tuple[int, int]:
        """The scale of each operand over the result's, with `places` fraction bits."""
        ratios = [v.scale / self.y.scale for v in (self.a, self.b)]
        first, second = numerics.to_fixed_point(ratios, self.places).tolist()
        return (self.sign * first, second) if self.is_swapped else (first, self.sign * second)

    @property
    def offset(self) -> int:
        """The constant added to the sum: all three zero points, and one half for rounding."""
        first, second = self.multipliers
        zeros = first * self.a.zero_point + second * self.b.zero_point
        return (self.y.zero_point << self.places) + (1 << self.places >> 1) - zeros

    def levels(self, operands: Sequence[Array]) -> Int64Array:
        (a, b), (first, second) = self.integers(operands), self.multipliers
        return (a * first + b * second + self.offset) >> self.places


@dataclass(frozen=True)
class WideScaling(WideSum):
    """A product with a constant number, as a sum whose second operand does not count."""

    factor: int
    fraction_bits: int

    @property
    def places(self) -> int:
        return self.fraction_bits

    @property
    def multipliers(self) -> tuple[int, int]:
        return self.factor, 0


@dataclass(frozen=True)
class WideProduct(WidePair):
    """A product. The first operand is multiplied by an integer, the second shifted left, to fill 32 bits each; the
    result is the upper word of their 64-bit product, rounded half up."""

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

    @property
    def scaling(self) -> WideScaling | None:
        """The product as a scaling by a constant number; None if no operand is a constant number."""
        for number, x in ((self.b, self.a), (self.a, self.b)):
            if number.is_constant and number.type.elements == 1:
                factor = (int(number.constant.item()) - number.zero_point) * self.multiplier
                return WideScaling(x, x, self.y, False, 0, factor, PLACES - self.left)
        return None

    def check_scales(self) -> None:
        self.left  # noqa: B018  # raises

    def levels(self, operands: Sequence[Array]) -> Int64Array:
        a, b = self.integers(operands)
        products = ((a - self.a.zero_point) * self.multiplier) * ((b - self.b.zero_point) << self.left)
        return (products + (1 << PLACES >> 1) >> PLACES) + self.y.zero_point


def wide_example_value(name: str, shape: tuple[int, ...], dtype: DType, number: int, ratio: float) -> Value:
    """Returns a value with the same range in 8 and in 16 bits."""
    low, high = dtype.bounds
    scale = 16.0 * ratio / (high - low + 1)
    return Value(name, TensorType(shape, dtype, PerTensor(scale, (low, 0, high, high // 3)[number % 4])))
