# SPDX-License-Identifier: Apache-2.0
"""Sums and extrema over any axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from pillion.ir import numerics
from pillion.ir.along import Course
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, Quantization, op, operand, result, want_same_quant
from pillion.ir.rows import ROWS, Part, Span
from pillion.ir.types import Array, DType, Shape, TensorType, Value
from pillion.ops.pool import SUM_BYTES, behind_rows, check_axes, reduced_along, reduced_shape, why_reduced
from pillion.ops.samples import DEVIATION, RATIOS, ZERO_POINTS, center, make, result_for, value


class Reduction(Op):
    """The shape rule of all reductions."""

    x: Value
    y: Value
    axes: tuple[int, ...]
    keepdims: bool
    part: Part | None

    @property
    def is_idle(self) -> bool:
        """Whether every axis that is reduced has the size 1."""
        return self.x.type.elements == self.y.type.elements and self.x.type.quant == self.y.type.quant

    @property
    def crosses_rows(self) -> str:
        return why_reduced(self)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span

    def on_rows(self, span: Span) -> dict[str, object]:
        rows = self.x.shape[ROWS]
        return {"part": Part(rows, span.first == 0, span.end == rows)} if self.folded_bytes else {}

    @property
    def is_part(self) -> bool:
        return self.part is not None

    def along(self, operand: Value, axis: int) -> Course:
        return reduced_along(self, axis)

    @property
    def count(self) -> int:
        """The number of elements behind one of the result."""
        sizes = {a: self.x.shape[a] for a in self.axes} | ({ROWS: self.part.of} if self.part else {})
        return math.prod(sizes.values())

    def infer(self) -> TensorType:
        return TensorType(reduced_shape(self.x.shape, self.axes, self.keepdims), self.x.dtype)

    def check(self) -> None:
        check_axes(self, self.axes, self.x.type.rank)
        if not self.axes or self.count < 1:
            raise self.refuse(
                "at least one axis, none of them empty", f"axes {self.axes} of {list(self.x.shape)}"
            )

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _reduction_examples(cls)


@op("reduce_sum")
class ReduceSum(Reduction):
    """The sum over some axes.

    `tflite` scales it in double precision and rounds once, half away from zero, as LiteRT's optimized kernel
    does (its reference kernel takes int8 for uint8). `tflite-integer` rounds once too, half up, a product with the fixed-point
    multiplier."""

    x: Value = operand()
    y: Value = result()
    axes: tuple[int, ...] = ()
    keepdims: bool = False
    part: Part | None = field(default=None, metadata={"role": "rows"})

    @property
    def folded_bytes(self) -> int:
        is_int8 = self.x.dtype is DType.INT8 and self.y.dtype is DType.INT8
        return SUM_BYTES * behind_rows(self.x.shape, self.axes) if is_int8 else 0

    @property
    def ratio(self) -> float:
        """The ratio of the scales, by which a sum of integers is multiplied."""
        return self.x.scale / self.y.scale

    @property
    def multiplier(self) -> Multiplier:
        """The ratio of the scales as a fixed-point multiplier."""
        return numerics.encode(self.ratio)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield numerics.INT8_STEPS * self.count, self.multiplier.shift

    def check_scales(self, arithmetic: Arithmetic) -> None:
        _ = self.multiplier

    def check(self) -> None:
        super().check()
        if self.x.dtype is DType.INT8 and numerics.INT8_STEPS * self.count > numerics.INT32_MAX:
            raise self.refuse("sums fit 32 bits", f"{self.count} elements")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums = (
            operands[0].astype(np.int64).sum(axis=self.axes, keepdims=self.keepdims)
            - self.count * self.x.zero_point
        )
        if arithmetic is Arithmetic.TFLITE:
            scaled = numerics.round_half_away(sums * self.ratio).astype(np.int64)
        elif arithmetic is Arithmetic.TFLITE_INTEGER:
            scaled = numerics.multiply_once(sums, self.multiplier)
        else:
            scaled = numerics.requantize(sums, self.multiplier.mantissa, self.multiplier.shift)
        return numerics.saturate(scaled + self.y.zero_point, -128, 127)


class Extremes(Reduction):
    """The base of extrema over axes, which compare integers as they are, hence shared parameters."""

    @property
    def folded_bytes(self) -> int:
        is_bytes = self.x.dtype in (DType.INT8, DType.BOOL)
        return behind_rows(self.x.shape, self.axes) if is_bytes else 0

    def check(self) -> None:
        super().check()
        if self.x.dtype is DType.INT8:
            want_same_quant(self, self.x, self.y)


@op("reduce_max", quantization=Quantization.SHARED)
class ReduceMax(Extremes):
    """The largest value along some axes."""

    x: Value = operand()
    y: Value = result()
    axes: tuple[int, ...] = ()
    keepdims: bool = False
    part: Part | None = field(default=None, metadata={"role": "rows"})

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.asarray(operands[0].max(axis=self.axes, keepdims=self.keepdims))


@op("reduce_min", quantization=Quantization.SHARED)
class ReduceMin(Extremes):
    """The smallest value along some axes."""

    x: Value = operand()
    y: Value = result()
    axes: tuple[int, ...] = ()
    keepdims: bool = False
    part: Part | None = field(default=None, metadata={"role": "rows"})

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.asarray(operands[0].min(axis=self.axes, keepdims=self.keepdims))


def _reduction_examples(cls: type[Op]) -> Iterator[Op]:
    cases: tuple[tuple[Shape, tuple[int, ...], bool], ...] = (
        ((1, 5, 3, 8), (1, 2), True),
        ((2, 7, 5, 9), (1, 2), False),
        ((2, 3, 5, 7), (3,), True),
        ((3, 5, 7), (0, 2), False),
        ((2, 11), (1,), False),
        ((2, 1, 3, 5), (1,), False),
        ((3, 7), (0, 1), False),
        ((2, 3, 5, 7), (1, 3), False),
    )
    shared = cls.quantization.name == "SHARED"
    for number, (shape, axes, keepdims) in enumerate(cases):
        for ratio in RATIOS[number % 2 :: 2] if not shared else (1.0,):
            x = value("x", shape, 0.0625, ZERO_POINTS[number % 4])
            count = math.prod(shape[axis] for axis in axes)
            y = value("y", (), x.scale, x.zero_point)
            if not shared:
                y = result_for(x.scale * count * center(x), x.scale * math.sqrt(count) * DEVIATION, number)
                y = value("y", (), y.scale / ratio, y.zero_point)
            yield make(cls, y, x=x, axes=axes, keepdims=keepdims)
