# SPDX-License-Identifier: Apache-2.0
"""Pooling over NHWC images, and means over any axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pillion.ir import numerics
from pillion.ir.along import Along, Course
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, Quantization, op, operand, result, want_rank, want_same_quant
from pillion.ir.rows import ROWS, Part, Span, why_no_rows
from pillion.ir.types import Array, DType, Pair, Shape, Sides, TensorType, Value
from pillion.ops.conv import output_size
from pillion.ops.row_window import RowWindow, unpadded, window_along
from pillion.ops.samples import RATIOS, ZERO_POINTS, make, value


class Pool(Op):
    """The base of pools: windows of `kernel` pixels; what lies outside the image is not part of a window."""

    x: Value
    y: Value
    kernel: Pair
    stride: Pair
    padding: Sides
    low: int
    high: int

    @property
    def is_idle(self) -> bool:
        """Whether a window is a single pixel, and every pixel has one."""
        one_pixel = self.kernel == self.stride == (1, 1) and not any(self.padding)
        return one_pixel and (self.low, self.high) == (-128, 127)

    @property
    def output_shape(self) -> Shape:
        """The shape of the result, which follows from image, window and padding."""
        top, left, bottom, right = self.padding
        sizes = zip(
            self.x.shape[1:3], self.kernel, self.stride, (1, 1), (top + bottom, left + right), strict=True
        )
        return (self.x.shape[0], *(output_size(*axis) for axis in sizes), self.x.shape[3])

    @cached_property
    def window(self) -> RowWindow:
        """The rows of the image that rows of the result see."""
        return RowWindow(self.kernel[0], self.stride[0], 1, self.padding[0], self.x.shape[1])

    @property
    def crosses_rows(self) -> str:
        return self.window.crosses(self.y.shape[1])

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return self.window.seen(span)

    def on_rows(self, span: Span) -> dict[str, object]:
        return {"padding": self.window.padding_of(span, self.padding)}

    @property
    def outside(self) -> float | None:
        """The level that pixels outside the image may have without a difference; None if they are not counted at all."""
        return None

    def along(self, operand: Value, axis: int) -> Course:
        window = (self.kernel, self.stride, (1, 1), self.padding, self.outside)
        return window_along(axis, *window) if axis in (1, 2) else Along(axis)

    def all_inside(self, axis: int, count: int) -> dict[str, object]:
        return {"padding": unpadded(axis, self.padding)}

    def infer(self) -> TensorType:
        return TensorType(self.output_shape, self.x.dtype)

    def check(self) -> None:
        want_rank(self, self.x, 4)
        if min(*self.kernel, *self.stride) < 1 or min(self.output_shape[1:3]) < 1:
            raise self.refuse(
                "the window fits into the padded image", f"image {self.x.shape[1:3]}, {self.attributes}"
            )
        before, after = self.padding[:2], self.padding[2:]
        if any(p < 0 or p >= k for p, k in zip((*before, *after), (*self.kernel, *self.kernel), strict=True)):
            raise self.refuse(
                "every window sees the image: padding is smaller than the kernel", self.attributes
            )
        if self.x.dtype is DType.INT8:
            want_same_quant(self, self.x, self.y)

    def sums(self, x: Array) -> tuple[numerics.Int64Array, numerics.Int64Array]:
        """Gives the sum of the pixels of each window that lie inside the image, and how many these are."""
        x = x.astype(np.int64)
        return self.windows(x, 0).sum(axis=(-2, -1)), self.windows(np.ones_like(x), 0).sum(axis=(-2, -1))

    def windows(self, x: Array, outside: int) -> Array:
        """Gives the pixels of all windows: [n, out_h, out_w, c, kernel_h, kernel_w]."""
        top, left, bottom, right = self.padding
        padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=outside)
        return sliding_window_view(padded, self.kernel, axis=(1, 2))[:, :: self.stride[0], :: self.stride[1]]

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _pool_examples(cls)


@op("max_pool2d", quantization=Quantization.SHARED)
class MaxPool2d(Pool):
    """The largest value in each window."""

    x: Value = operand()
    y: Value = result()
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    low: int = -128
    high: int = 127

    @property
    def outside(self) -> float | None:
        return self.x.dtype.bounds[0] if self.x.dtype is not DType.FLOAT32 else None

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        largest = self.windows(operands[0].astype(np.int32), -(2**31)).max(axis=(-2, -1))
        return numerics.saturate(largest, self.low, self.high)


@op("avg_pool2d", quantization=Quantization.SHARED)
class AvgPool2d(Pool):
    """The mean of the pixels of each window that lie inside the image, half away from zero on the integers."""

    x: Value = operand()
    y: Value = result()
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    low: int = -128
    high: int = 127

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums, counts = self.sums(operands[0])
        return numerics.saturate(numerics.divide_half_away(sums, counts), self.low, self.high)


@op("avg_pool2d_up", quantization=Quantization.SHARED)
class AvgPool2dUp(Pool):
    """The mean of the pixels of each window that lie inside the image, as LiteRT's kernel for uint8 rounds it: halves up. Under
    `cmsis-nn` they go away from zero, as those of all pools there."""

    x: Value = operand()
    y: Value = result()
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    low: int = -128
    high: int = 127

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums, counts = self.sums(operands[0])
        up = (2 * sums + counts) // (2 * counts)
        means = up if arithmetic.is_tflite else numerics.divide_half_away(sums, counts)
        return numerics.saturate(means, self.low, self.high)


SUM_BYTES = 4
"""Bytes of a sum that is kept while rows come."""


@op("mean")
class Mean(Op):
    """The mean over some axes.

    `cmsis-nn` requantizes the sum by one multiplier, scale ratio over count. `tflite` divides the mantissa of the scale
    ratio by the count, truncating."""

    x: Value = operand()
    y: Value = result()
    axes: tuple[int, ...] = ()
    keepdims: bool = False
    part: Part | None = field(default=None, metadata={"role": "rows"})

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
    def folded_bytes(self) -> int:
        is_int8 = self.x.dtype is DType.INT8 and self.y.dtype is DType.INT8
        return SUM_BYTES * behind_rows(self.x.shape, self.axes) if is_int8 else 0

    @property
    def is_part(self) -> bool:
        return self.part is not None

    def along(self, operand: Value, axis: int) -> Course:
        return reduced_along(self, axis)

    @property
    def count(self) -> int:
        """The number of elements of which a mean is taken."""
        sizes = {a: self.x.shape[a] for a in self.axes} | ({ROWS: self.part.of} if self.part else {})
        return math.prod(sizes.values())

    def multiplier(self, arithmetic: Arithmetic) -> Multiplier:
        """Gives the multiplier that turns a sum into a mean at the result's scale."""
        if arithmetic is Arithmetic.CMSIS_NN:
            return numerics.encode(self.x.scale / (self.y.scale * self.count))
        whole = numerics.encode(self.x.scale / self.y.scale)
        places = min(self.count.bit_length() - 1, 32, 31 + whole.shift)
        return Multiplier((whole.mantissa << places) // self.count, whole.shift - places)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield numerics.INT8_STEPS * self.count, self.multiplier(Arithmetic.CMSIS_NN).shift

    def check_scales(self, arithmetic: Arithmetic) -> None:
        self.multiplier(arithmetic)

    def infer(self) -> TensorType:
        return TensorType(reduced_shape(self.x.shape, self.axes, self.keepdims), self.x.dtype)

    def check(self) -> None:
        check_axes(self, self.axes, self.x.type.rank)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums = operands[0].astype(np.int64).sum(axis=self.axes, keepdims=self.keepdims)
        m = self.multiplier(arithmetic)
        scaled = numerics.requantize(sums - self.count * self.x.zero_point, m.mantissa, m.shift)
        return numerics.saturate(scaled + self.y.zero_point, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _reduce_examples(cls)


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Gives the shape after a reduction; reduced axes have size 1 or go."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def behind_rows(shape: Shape, axes: tuple[int, ...]) -> int:
    """Gives how many elements one of an image stands for where all rows are reduced to it, and with them whole axes behind; 0 where
    something else goes."""
    behind = ROWS + len(axes)
    is_over_rows = sorted(axes) == list(range(ROWS, behind)) and len(shape) > ROWS + 1
    return math.prod(shape[behind:]) if is_over_rows and min(shape) > 0 else 0


def why_reduced(op: Op) -> str:
    """Says why a reduction does not make rows one by one; empty if it does."""
    axes = op.attributes["axes"]
    if any(axis <= ROWS for axis in axes):
        return "it reduces all rows to one" if ROWS in axes else "it reduces images"
    return why_no_rows(op.results[0])


def reduced_along(op: Op, axis: int) -> Course:
    """Says how a reduction goes along an axis: it does not, or the axis stays and perhaps moves forward."""
    axes: tuple[int, ...] = op.attributes["axes"]
    if axis in axes:
        return "it reduces them all to one"
    return Along(axis if op.attributes["keepdims"] else axis - sum(a < axis for a in axes))


def check_axes(op: Op, axes: tuple[int, ...], rank: int) -> None:
    """Refuses axes that are named twice or do not exist."""
    if len(set(axes)) != len(axes) or not all(0 <= a < rank for a in axes):
        raise op.refuse(f"axes are different and from 0 to {rank - 1}", axes)


def _pool_examples(cls: type[Op]) -> Iterator[Op]:
    cases: tuple[tuple[Shape, dict[str, Any]], ...] = (
        ((1, 5, 7, 1), {"kernel": (2, 2), "stride": (2, 2)}),
        ((2, 7, 5, 8), {"kernel": (3, 3), "stride": (2, 1), "padding": (1, 1, 1, 1)}),
        ((1, 7, 7, 9), {"kernel": (7, 7)}),
        ((1, 11, 3, 7), {"kernel": (3, 2), "stride": (3, 2), "padding": (1, 0, 2, 1)}),
        ((1, 25, 5, 33), {"kernel": (25, 5)}),
    )
    for number, (shape, options) in enumerate(cases):
        x = value("x", shape, 0.02, ZERO_POINTS[number % 4])
        yield make(cls, value("y", (), 0.02, x.zero_point), x=x, **options)


def _reduce_examples(cls: type[Op]) -> Iterator[Op]:
    cases: tuple[tuple[Shape, tuple[int, ...], bool], ...] = (
        ((1, 5, 3, 8), (1, 2), True),
        ((2, 7, 5, 9), (1, 2), False),
        ((2, 3, 5, 7), (3,), True),
        ((3, 5, 7), (0, 2), False),
        ((2, 11), (1,), False),
        ((2, 1, 3, 5), (1,), False),
    )
    for number, (shape, axes, keepdims) in enumerate(cases):
        for ratio in RATIOS[number % 2 :: 2]:
            x = value("x", shape, 0.04, ZERO_POINTS[number % 4])
            y = value("y", (), 0.04 / ratio, ZERO_POINTS[(number + 1) % 4])
            yield make(cls, y, x=x, axes=axes, keepdims=keepdims)
