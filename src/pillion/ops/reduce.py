# SPDX-License-Identifier: Apache-2.0
"""Means, sums and extrema over any axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import ClassVar

import numpy as np

from pillion.ir import numerics
from pillion.ir.access import ROWS, Access, AxisMap, ReductionRowGroup
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.op import Op, Quantization, op, operand, require_same_quant, result
from pillion.ir.types import Array, DType, Shape, TensorType, Value
from pillion.ops.elementwise import level_steps
from pillion.ops.example_values import (
    DEVIATION,
    RATIOS,
    ZERO_POINTS,
    in_16_bits,
    level_center,
    make_op,
    result_for,
    value,
)

SUM_BYTES = 4
"""Bytes of a running sum."""


class Reduction(Op):
    """The base class of reductions."""

    x: Value = operand()
    y: Value = result()
    axes: tuple[int, ...] = ()
    keepdims: bool = False
    part: ReductionRowGroup | None = field(default=None, metadata={"role": "rows"})

    @property
    def is_identity(self) -> bool:
        """Whether every reduced axis has size 1."""
        return self.x.type.elements == self.y.type.elements and self.x.type.quant == self.y.type.quant

    def access(self, operand: Value) -> Access:
        return reduction_access(operand, self.axes, self.keepdims, "it reduces them all to one")

    @property
    def is_part(self) -> bool:
        return self.part is not None

    @property
    def count(self) -> int:
        """The number of operand elements per element of the result."""
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
        shared = cls.quantization is Quantization.SHARED
        for number, (shape, axes, keepdims) in enumerate(CASES):
            for ratio in (1.0,) if shared else RATIOS[number % 2 :: 2]:
                x = value("x", shape, 0.0625, ZERO_POINTS[number % 4])
                count = math.prod(shape[axis] for axis in axes)
                middle, deviation = x.scale * count * level_center(x), x.scale * math.sqrt(count) * DEVIATION
                y = result_for(middle, deviation, number)
                y = x.like("y") if shared else value("y", (), y.scale / ratio, y.zero_point)
                yield make_op(cls, y, x=x, axes=axes, keepdims=keepdims)
            yield make_op(cls, in_16_bits(y), x=in_16_bits(x), axes=axes, keepdims=keepdims)


class _SumReduction(Reduction):
    """The base class of sums and means: running sums of int8 have 32 bits."""

    def sums(self, x: Array) -> Int64Array:
        """Returns the sums of the elements less their zero point."""
        sums = x.astype(np.int64).sum(axis=self.axes, keepdims=self.keepdims)
        return np.asarray(sums - self.count * self.x.zero_point)

    @property
    def folded_bytes(self) -> int:
        is_int8 = self.x.dtype is DType.INT8 and self.y.dtype is DType.INT8
        return SUM_BYTES * elements_behind_rows(self.x.shape, self.axes) if is_int8 else 0


@op("mean")
class Mean(_SumReduction):
    """Averages over some axes.

    `cmsis-nn` requantizes the sum by one multiplier, scale ratio over count. `tflite` divides the mantissa of
    the scale ratio by the count, truncating."""

    takes_int16 = True

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        """Returns the multiplier from a sum to a mean at the result's scale."""
        if arithmetic is Arithmetic.CMSIS_NN:
            return numerics.encode_multiplier(self.x.scale / (self.y.scale * self.count))
        sum_multiplier = numerics.encode_multiplier(self.x.scale / self.y.scale)
        shift = min(self.count.bit_length() - 1, 32, 31 + sum_multiplier.shift)
        return Multiplier((sum_multiplier.mantissa << shift) // self.count, sum_multiplier.shift - shift)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        steps = numerics.INT8_STEPS if self.x.dtype is DType.INT8 else self.x.reach
        yield steps * self.count, self.multiplier(Arithmetic.CMSIS_NN).shift

    def check_scales(self, arithmetic: Arithmetic) -> None:
        self.multiplier(arithmetic)

    def check(self) -> None:
        check_axes(self, self.axes, self.x.type.rank)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        m = self.multiplier(arithmetic)
        scaled = numerics.requantize(self.sums(operands[0]), m.mantissa, m.shift)
        return np.clip(scaled + self.y.zero_point, *self.y.dtype.bounds).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (shape, axes, keepdims) in enumerate(CASES[:6]):
            for ratio in RATIOS[number % 2 :: 2]:
                x = value("x", shape, 0.04, ZERO_POINTS[number % 4])
                y = value("y", (), 0.04 / ratio, ZERO_POINTS[(number + 1) % 4])
                yield make_op(cls, y, x=x, axes=axes, keepdims=keepdims)
            yield make_op(cls, in_16_bits(y), x=in_16_bits(x), axes=axes, keepdims=keepdims)


@op("reduce_sum")
class ReduceSum(_SumReduction):
    """Adds over some axes.

    `tflite` scales the sum in double precision and rounds once, half away from zero, as LiteRT's optimized
    kernel does (its reference kernel takes all numbers for uint8). `tflite-integer` multiplies in fixed point and
    rounds once, half up; 16 bits are scaled as by `cmsis-nn` there."""

    takes_int16 = True

    @property
    def ratio(self) -> float:
        """The ratio of the scales, by which a sum of integers is multiplied."""
        return self.x.scale / self.y.scale

    @property
    def multiplier(self) -> Multiplier:
        """The ratio of the scales as a fixed-point multiplier."""
        return numerics.encode_multiplier(self.ratio)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield self.steps * self.count, self.multiplier.shift

    @property
    def steps(self) -> int:
        """The largest difference of an element from its zero point."""
        return level_steps(self.x)

    def check(self) -> None:
        super().check()
        if self.x.is_quantized and self.steps * self.count > numerics.INT32_MAX:
            raise self.refuse("sums fit 32 bits", f"{self.count} elements")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums = self.sums(operands[0])
        if arithmetic is Arithmetic.TFLITE:
            scaled = numerics.round_half_away(sums * self.ratio).astype(np.int64)
        elif arithmetic is Arithmetic.CMSIS_NN or self.x.dtype is DType.INT16:
            scaled = numerics.requantize(sums, self.multiplier.mantissa, self.multiplier.shift)
        else:
            scaled = numerics.multiply_single_rounding(sums, self.multiplier)
        return np.clip(scaled + self.y.zero_point, *self.y.dtype.bounds).astype(self.y.dtype.numpy)


class ExtremumReduction(Reduction):
    """The base class of extrema over axes. They compare integers directly, so operand and result share their
    parameters."""

    takes_int16 = True

    combine: ClassVar[Callable[..., Array]]

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.asarray(type(self).combine(operands[0], axis=self.axes, keepdims=self.keepdims))

    @property
    def folded_bytes(self) -> int:
        is_bytes = self.x.dtype in (DType.INT8, DType.BOOL)
        return elements_behind_rows(self.x.shape, self.axes) if is_bytes else 0

    def check(self) -> None:
        super().check()
        if self.x.dtype in (DType.INT8, DType.INT16):
            require_same_quant(self, self.x, self.y)


@op("reduce_max", quantization=Quantization.SHARED)
class ReduceMax(ExtremumReduction):
    """Returns the largest value along some axes."""

    combine = staticmethod(np.max)


@op("reduce_min", quantization=Quantization.SHARED)
class ReduceMin(ExtremumReduction):
    """Returns the smallest value along some axes."""

    combine = staticmethod(np.min)


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Returns the shape after a reduction; reduced axes have size 1 or are dropped."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduction_access(operand: Value, axes: tuple[int, ...], keepdims: bool, why: str) -> Access:
    """Returns the access map of a reduction over some axes; `why` explains the dependence on these."""
    result_axes = (
        axis if keepdims else axis - sum(a < axis for a in axes) for axis in range(operand.type.rank)
    )
    return tuple(
        why if axis in axes else AxisMap(result_axis) for axis, result_axis in enumerate(result_axes)
    )


def elements_behind_rows(shape: Shape, axes: tuple[int, ...]) -> int:
    """Returns the number of elements per image that a reduction over all rows, and over whole axes behind them,
    leaves; 0 for other reductions."""
    behind = ROWS + len(axes)
    is_over_rows = sorted(axes) == list(range(ROWS, behind)) and len(shape) > ROWS + 1
    return math.prod(shape[behind:]) if is_over_rows and min(shape) > 0 else 0


def check_axes(op: Op, axes: tuple[int, ...], rank: int) -> None:
    """Raises if an axis is named twice or does not exist."""
    if len(set(axes)) != len(axes) or not all(0 <= a < rank for a in axes):
        raise op.refuse(f"axes are different and from 0 to {rank - 1}", axes)


CASES: tuple[tuple[Shape, tuple[int, ...], bool], ...] = (
    ((1, 5, 3, 8), (1, 2), True),
    ((2, 7, 5, 9), (1, 2), False),
    ((2, 3, 5, 7), (3,), True),
    ((3, 5, 7), (0, 2), False),
    ((2, 11), (1,), False),
    ((2, 1, 3, 5), (1,), False),
    ((3, 7), (0, 1), False),
    ((2, 3, 5, 7), (1, 3), False),
)
"""Shape, axes and whether they are kept, of the examples."""
