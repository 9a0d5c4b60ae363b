# SPDX-License-Identifier: Apache-2.0
"""Matrix products of two tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, op, operand, result, want_rank
from pillion.ir.types import Array, Shape, TensorType, Value
from pillion.ops import samples_more


@op("batch_matmul")
class BatchMatmul(Op):
    """Computes a · b for each batch: [B, M, K] · [B, K, N]. With `adj_x` the last two axes of a lie exchanged in memory, with
    `adj_y` those of b; the two are independent."""

    is_idle = False

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    adj_x: bool = False
    adj_y: bool = False
    low: int = -128
    high: int = 127

    @property
    def rows(self) -> int:
        """The rows of a and of the result."""
        return self.a.shape[2 if self.adj_x else 1]

    @property
    def depth(self) -> int:
        """The products in each element of the result."""
        return self.a.shape[1 if self.adj_x else 2]

    @property
    def columns(self) -> int:
        """The columns of b and of the result."""
        return self.b.shape[1 if self.adj_y else 2]

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        """Gives the multiplier of the accumulators. LiteRT forms the product of the scales in float32, the ratio in double."""
        product = self.a.scale * self.b.scale
        if arithmetic is Arithmetic.TFLITE:
            product = float(np.float32(product))
        return numerics.encode(product / self.y.scale)

    @property
    def macs(self) -> int:
        return self.y.type.elements * self.depth

    def infer(self) -> TensorType:
        shape: Shape = (self.a.shape[0], self.rows, self.columns)
        return TensorType(shape, (self.activations or self.operands)[0].dtype)

    def check(self) -> None:
        """Raises where operands do not fit. A constant may be quantized already while the other operand is still a real number."""
        want_rank(self, self.a, 3)
        want_rank(self, self.b, 3)
        types = {v.dtype for v in (self.a, self.b) if not (v.is_constant and v.is_quantized)}
        if len(types) > 1:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")
        if self.a.shape[0] != self.b.shape[0] or self.depth != self.b.shape[2 if self.adj_y else 1]:
            raise self.refuse(
                "[B, M, K] · [B, K, N]", f"{list(self.a.shape)} · {list(self.b.shape)}, {self.attributes}"
            )
        if self.a.is_quantized and self.b.is_quantized and self.largest_sum > numerics.INT32_MAX:
            raise self.refuse("sums fit 32 bits", f"up to {self.largest_sum}")

    @property
    def largest_sum(self) -> int:
        """The number that no accumulator can exceed."""
        first, second = (max(127 - v.zero_point, v.zero_point + 128) for v in (self.a, self.b))
        return self.depth * first * second

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.float64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        sums = (a.swapaxes(1, 2) if self.adj_x else a) @ (b.swapaxes(1, 2) if self.adj_y else b)
        m = self.multiplier(arithmetic)
        scaled = numerics.requantize(sums.astype(np.int64), m.mantissa, m.shift)
        return numerics.saturate(scaled + self.y.zero_point, self.low, self.high)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from samples_more.matmul_examples(cls)
