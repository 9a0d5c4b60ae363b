# SPDX-License-Identifier: Apache-2.0
"""Matrix products of two tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.access import Access, AxisMap
from pillion.ir.numerics import Arithmetic, Multiplier, Multipliers
from pillion.ir.op import Op, ScaledOp, op, operand, require_rank, result
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value
from pillion.ops.example_values import (
    DEVIATION,
    ZERO_POINTS,
    constant_like,
    in_16_bits,
    level_center,
    make_op,
    result_for,
    value,
)
from pillion.ops.layer import require_symmetric


@op("batch_matmul")
class BatchMatmul(ScaledOp):
    """Multiplies matrices batch by batch: [B, M, K] · [B, K, N]. With `adj_x` the last two axes of a are exchanged
    in memory, with `adj_y` those of b; the two flags are independent."""

    takes_int16 = True

    is_identity = False

    a: Value = operand()
    b: Value = operand()
    y: Value = result()
    adj_x: bool = False
    adj_y: bool = False
    low: int = -128
    high: int = 127

    def access(self, operand: Value) -> Access:
        own_axis = 0 if self.a is self.b else 1 + (self.adj_x if operand is self.a else not self.adj_y)
        placed = AxisMap(1 if operand is self.a else 2)
        summed = "each element of the product is a sum over them all"
        return AxisMap(0), placed if own_axis == 1 else summed, placed if own_axis == 2 else summed

    @property
    def rows(self) -> int:
        """The rows of a and of the result."""
        return self.a.shape[2 if self.adj_x else 1]

    @property
    def depth(self) -> int:
        """The number of products per element of the result."""
        return self.a.shape[1 if self.adj_x else 2]

    @property
    def columns(self) -> int:
        """The columns of b and of the result."""
        return self.b.shape[1 if self.adj_y else 2]

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        """Returns the multiplier of the accumulators."""
        return self.effective_multipliers(arithmetic)[0]

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        """Returns the multiplier of the accumulators. LiteRT computes the product of the scales in float32, the
        ratio in double."""
        product = self.a.scale * self.b.scale
        if arithmetic.is_tflite:
            product = float(np.float32(product))
        return (numerics.encode_multiplier(product / self.y.scale),)

    @property
    def macs(self) -> int:
        return self.y.type.elements * self.depth

    def infer(self) -> TensorType:
        shape: Shape = (self.a.shape[0], self.rows, self.columns)
        return TensorType(shape, (self.activations or self.operands)[0].dtype)

    def check(self) -> None:
        """Raises if operands do not fit. A constant may already be quantized while the other operand is real."""
        require_rank(self, self.a, 3)
        require_rank(self, self.b, 3)
        types = {v.dtype for v in (self.a, self.b) if not (v.is_constant and v.is_quantized)}
        if len(types) > 1:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")
        if self.a.shape[0] != self.b.shape[0] or self.depth != self.b.shape[2 if self.adj_y else 1]:
            raise self.refuse(
                "[B, M, K] · [B, K, N]", f"{list(self.a.shape)} · {list(self.b.shape)}, {self.attributes}"
            )
        if self.a.dtype is DType.INT16:
            require_symmetric(self, self.a, self.b, self.y)
        elif self.a.is_quantized and self.b.is_quantized and self.largest_sum > numerics.INT32_MAX:
            raise self.refuse("sums fit 32 bits", f"up to {self.largest_sum}")

    @property
    def largest_sum(self) -> int:
        """An upper bound for every accumulator."""
        return self.depth * self.a.reach * self.b.reach

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        if self.a.dtype is not DType.INT16:
            yield self.largest_sum, self.multiplier(Arithmetic.CMSIS_NN).shift

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = (x.astype(np.float64) - v.zero_point for x, v in zip(operands, (self.a, self.b), strict=True))
        sums = (a.swapaxes(1, 2) if self.adj_x else a) @ (b.swapaxes(1, 2) if self.adj_y else b)
        m = self.multiplier(arithmetic)
        scale = numerics.requantize_to_16_bits if self.a.dtype is DType.INT16 else numerics.requantize
        scaled = scale(sums.astype(np.int64), m.mantissa, m.shift)
        return np.clip(scaled + self.y.zero_point, self.low, self.high).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        sizes = ((1, 1, 1, 1), (2, 3, 5, 7), (3, 7, 8, 9), (2, 5, 33, 17), (1, 13, 64, 16))
        for number, (batch, rows, depth, columns) in enumerate(sizes):
            for adj_x, adj_y in ((False, False), (True, False), (False, True), (True, True)):
                case = 4 * number + 2 * adj_x + adj_y
                a_shape = (batch, depth, rows) if adj_x else (batch, rows, depth)
                b_shape = (batch, columns, depth) if adj_y else (batch, depth, columns)
                a = value("a", a_shape, 2.0**-5, ZERO_POINTS[case % 4])
                b = value("b", b_shape, 2.0**-4 if number % 2 else 0.043, ZERO_POINTS[case // 2 % 4])
                if number == 3:
                    b = constant_like(b, case)
                product, spread = (
                    level_center(a) * level_center(b),
                    DEVIATION * math.hypot(DEVIATION, level_center(a), level_center(b)),
                )
                unit = a.scale * b.scale
                y = result_for(unit * depth * product, unit * math.sqrt(depth) * spread, case)
                bounds = {"low": -100, "high": 90} if case % 5 == 4 else {}
                yield make_op(cls, y, a=a, b=b, adj_x=adj_x, adj_y=adj_y, **bounds)
                if number != 3 and case % 3 == 0:
                    a, b, y = map(in_16_bits, (a, b, y))
                    y = y.like("y", quant=PerTensor(y.scale / 256))
                    bounds = {"low": 0 if case % 2 else -(2**15), "high": 2**15 - 1}
                    yield make_op(cls, y, a=a, b=b, adj_x=adj_x, adj_y=adj_y, **bounds)
