# SPDX-License-Identifier: Apache-2.0
"""Division by a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.op import Op, op
from pillion.ir.types import Array, DType, PerTensor, Value, constant_value
from pillion.ops.elementwise import Binary
from pillion.ops.example_values import (
    BROADCASTS,
    ZERO_POINTS,
    constant_like,
    in_16_bits,
    level_center,
    make_op,
    value,
)
from pillion.ops.softmax import one_over_one_plus

LARGEST_SHIFT = 22
"""The largest shift of the scale ratio under `tflite`: a larger one would shift products out of 32 bits."""


@op("div")
class Div(Binary):
    """Divides a by b; the result is zero where b is zero.

    `cmsis-nn` divides in float32, multiplies by the float32 ratio of the scales, and rounds half away from
    zero, also in 16 bits. `tflite` multiplies in fixed point by the reciprocal of b. Quotients so small that LiteRT would shift
    by more than 31 places, which C leaves undefined, are zero here."""

    takes_int16 = True

    is_identity = False

    low: int = -128
    high: int = 127
    explicit_ratio: float = 0.0
    """The ratio of a program that holds no scales; 0: it follows from the scales."""

    @property
    def ratio(self) -> float:
        """The ratio of the scales, by which a quotient of integers is multiplied."""
        return self.explicit_ratio or self.a.scale / (self.b.scale * self.y.scale)

    @property
    def is_wide(self) -> bool:
        """Whether the operands have 16 bits."""
        return self.a.dtype is DType.INT16

    @property
    def why_explicit(self) -> str:
        own = self.explicit_ratio
        from_scales = self.a.scale / (self.b.scale * self.y.scale) if own else own
        is_other = np.float32(own) != np.float32(from_scales)
        return f"the ratio {own:g}, where the scales give {from_scales:g}" if is_other else ""

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier under `tflite`, whose ratio LiteRT computes in float32."""
        if self.explicit_ratio:
            return numerics.encode_multiplier(self.explicit_ratio)
        return numerics.encode_multiplier(
            float(np.float32(self.a.scale) / (np.float32(self.b.scale) * np.float32(self.y.scale)))
        )

    @property
    def is_defined_in_litert(self) -> bool:
        """Whether LiteRT never shifts by more than 31 places, for any operands."""
        return self.b.reach.bit_length() - 1 + 31 - self.multiplier.shift <= 31

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if not self.is_wide:
            _ = self.multiplier

    def check(self) -> None:
        super().check()
        if self.explicit_ratio and not 2.0**-126 <= self.explicit_ratio < 2.0**LARGEST_SHIFT:
            raise self.refuse(f"a ratio is positive and less than 2^{LARGEST_SHIFT}", self.explicit_ratio)
        if (
            not self.is_wide
            and all(v.is_quantized for v in (self.a, self.b, self.y))
            and self.multiplier.shift > LARGEST_SHIFT
        ):
            raise self.refuse(f"the ratio of the scales is less than 2^{LARGEST_SHIFT}", f"{self.ratio!r}")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.int64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        a, b = np.broadcast_arrays(a, b)
        if arithmetic.is_tflite and not self.is_wide:
            quotient: NDArray[Any] = self._divide_in_fixed_point(a, b)
        else:
            quotient = divide_in_float(a, b, self.ratio)
        levels = np.where(b == 0, 0, quotient) + self.y.zero_point
        return np.clip(levels, self.low, self.high).astype(self.y.dtype.numpy)

    def _divide_in_fixed_point(self, a: Int64Array, b: Int64Array) -> Int64Array:
        numerator = np.where(b < 0, -a, a)
        divisor = np.abs(b)
        headroom = leading_sign_bits(numerator)
        product = numerics.multiply_high(numerator << headroom, reciprocal_table()[divisor])
        shift = bits_of(divisor) - 1 + headroom - self.multiplier.shift
        scaled = numerics.multiply_high(product, self.multiplier.mantissa)
        return np.where(shift > 31, 0, numerics.shift_right(scaled, np.minimum(shift, 31)))

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Some with ratios of scales for which LiteRT is defined (a result in fine steps), constants without
        zeros among them."""
        for number, (a_shape, b_shape) in enumerate(BROADCASTS):
            for ratio in (0.25, 3.7, 128.0):
                a = value("a", a_shape, 0.0625, ZERO_POINTS[number % 4])
                b = value("b", b_shape, 0.05, ZERO_POINTS[(number + 1) % 4])
                if number % 2:
                    b = _without_zeros(b)
                zero_point = 0 if ratio > 1 else -128 if level_center(a) * level_center(b) > 0 else 127
                y = value("y", (), a.scale / (b.scale * ratio), zero_point)
                yield make_op(cls, y, a=a, b=b, **({"low": -100, "high": 90} if number == 1 else {}))
            wide = map(in_16_bits, (y, a, value("b", b_shape, 0.05)))
            y, a, b = wide
            yield make_op(cls, y, a=a, b=b, low=-(2**15), high=(2**15 - 1, 5000)[number % 2])


def divide_in_float(a: Int64Array, b: Int64Array, ratio: float) -> NDArray[np.float64]:
    """Returns a / b · ratio in float32, rounded half away from zero; 0 where b is 0."""
    quotient = np.where(b == 0, 0, a).astype(np.float32) / np.where(b == 0, 1, b).astype(np.float32)
    return numerics.round_half_away(quotient * np.float32(ratio))


def bits_of(x: Int64Array) -> Int64Array:
    """Returns the bit length of non-negative numbers below 2^52."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def leading_sign_bits(x: Int64Array) -> Int64Array:
    """Returns how often a 32-bit number can be doubled without overflow."""
    return 31 - bits_of(np.where(x < 0, ~x, x))


def reciprocal_table() -> Int64Array:
    """Returns 2^k / b in Q0.31 for b from 0 to 255, where k is the position of b's leading bit; 0 for b = 0."""
    b = np.arange(1, 256, dtype=np.int64)
    fraction = (b << (32 - bits_of(b))) - 2**31
    return np.concatenate([[0], one_over_one_plus(fraction)])


def _without_zeros(v: Value) -> Value:
    levels = constant_like(v, 5).constant
    data = np.where(
        levels == v.zero_point, np.int8(v.zero_point - 1 if v.zero_point > 0 else v.zero_point + 1), levels
    )
    return constant_value(v.name, data.astype(np.int8), PerTensor(v.scale, v.zero_point))
