# SPDX-License-Identifier: Apache-2.0
"""L2 normalization, as TensorFlow files use it behind embeddings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, require_dtype
from pillion.ir.types import Array, DType, PerTensor
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.rowwise import Unary
from pillion.ops.square_root import inverse_square_root

OUTPUT = PerTensor(1 / 128, 0)
"""-1 to 127/128 in steps of 1/128."""
FRACTION_BITS = 7
"""Fraction bits of the result."""
LARGEST_SHIFT = 2
"""The largest shift of an inverse length, which sums of 2 and 3 have."""
LONGEST = numerics.INT32_MAX // 255**2
"""The maximum vector length: the sum of squares stays below 2^31."""


@op("l2_normalize", quantization=Quantization.FIXED)
class L2Normalize(Unary):
    """Divides vectors along the last axis by their length: x / sqrt(sum(x²)). Newton's method finds the inverse
    length in integers; `headroom` is the left shift of elements before the multiplication (LiteRT uses 0 for
    int8 and 7 for uint8). Both arithmetics agree."""

    is_identity = False
    across_last = "each is divided by the length of them all"

    headroom: int = 0

    def check(self) -> None:
        require_dtype(self, self.x, DType.INT8)
        if self.x.type.rank < 1 or self.x.shape[-1] > LONGEST:
            raise self.refuse(f"vectors lie along the last axis and have at most {LONGEST} elements", self.x)
        if self.headroom not in (0, FRACTION_BITS):
            raise self.refuse(f"the headroom is 0 or {FRACTION_BITS} bits", self.headroom)
        if self.y.type.quant is not None and self.y.quant != OUTPUT:
            raise self.refuse("the result has scale 1/128 and zero point 0", self.y.quant)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield numerics.INT8_STEPS << self.headroom, LARGEST_SHIFT + FRACTION_BITS - self.headroom

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x = operands[0].astype(np.int64) - self.x.zero_point
        mantissa, shift = inverse_square_root((x * x).sum(axis=-1, keepdims=True))
        levels = numerics.requantize(x << self.headroom, mantissa, shift + FRACTION_BITS - self.headroom)
        return numerics.clamp_to_int8(levels, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        shapes = ((1, 2), (2, 3, 7), (1, 33), (3, 1), (1, 1000), (2, 1, 4, 5), (1, 128), (2, 9001))
        for number, shape in enumerate(shapes):
            x = value("x", shape, 0.0371, ZERO_POINTS[number % 4])
            y = value("y", (), OUTPUT.scale, OUTPUT.zero_point)
            yield make_op(cls, y, x=x, headroom=(0, FRACTION_BITS)[number % 3 == 1])
