# SPDX-License-Identifier: Apache-2.0
"""Pooling over NHWC images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pillion.ir import numerics
from pillion.ir.access import Access, AxisMap, Span, crop_tile_padding, window_maps
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, require_rank, require_same_quant, result
from pillion.ir.types import Array, DType, Pair, Shape, Sides, TensorType, Value
from pillion.ops.conv import output_sizes
from pillion.ops.example_values import ZERO_POINTS, in_16_bits, make_op, value


class Pool(Op):
    """The base class of pools over windows of `kernel` pixels; padding is not part of a window."""

    x: Value = operand()
    y: Value = result()
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    low: int = -128
    high: int = 127

    @property
    def is_identity(self) -> bool:
        """Whether every window is a single pixel, and every pixel has one."""
        one_pixel = self.kernel == self.stride == (1, 1) and not any(self.padding)
        return one_pixel and (self.low, self.high) == self.x.dtype.bounds

    @property
    def output_shape(self) -> Shape:
        """The shape of the result, from image, window and padding."""
        sizes = output_sizes(self.x, self.kernel, self.stride, (1, 1), self.padding)
        return (self.x.shape[0], *sizes, self.x.shape[3])

    @property
    def neutral_padding(self) -> float | None:
        """The level that padding may have without changing the result; None if padding is not counted."""
        return None

    def access(self, operand: Value) -> Access:
        over = window_maps(
            self.x, self.y, self.kernel, self.stride, (1, 1), self.padding, self.neutral_padding
        )
        return AxisMap(0), *over, AxisMap(3)

    def tile(self, axis: int, span: Span, missing: Pair) -> dict[str, object]:
        return {"padding": crop_tile_padding(self.padding, axis, missing)}

    def infer(self) -> TensorType:
        return TensorType(self.output_shape, self.x.dtype)

    def check(self) -> None:
        require_rank(self, self.x, 4)
        if min(*self.kernel, *self.stride) < 1 or min(self.output_shape[1:3]) < 1:
            raise self.refuse(
                "the window fits into the padded image", f"image {self.x.shape[1:3]}, {self.attributes}"
            )
        before, after = self.padding[:2], self.padding[2:]
        if any(p < 0 or p >= k for p, k in zip((*before, *after), (*self.kernel, *self.kernel), strict=True)):
            raise self.refuse(
                "every window sees the image: padding is smaller than the kernel", self.attributes
            )
        if self.x.dtype in (DType.INT8, DType.INT16):
            require_same_quant(self, self.x, self.y)

    def sums(self, x: Array) -> tuple[numerics.Int64Array, numerics.Int64Array]:
        """Returns the sum and the number of the pixels of each window inside the image."""
        x = x.astype(np.int64)
        return self.windows(x, 0).sum(axis=(-2, -1)), self.windows(np.ones_like(x), 0).sum(axis=(-2, -1))

    def clamped(self, levels: Array) -> Array:
        """Returns the levels of a result within its bounds."""
        return np.clip(levels, self.low, self.high).astype(self.y.dtype.numpy)

    def windows(self, x: Array, outside: int) -> Array:
        """Returns the pixels of all windows as [n, out_h, out_w, c, kernel_h, kernel_w]."""
        top, left, bottom, right = self.padding
        padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=outside)
        return sliding_window_view(padded, self.kernel, axis=(1, 2))[:, :: self.stride[0], :: self.stride[1]]

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases: tuple[tuple[Shape, dict[str, Any]], ...] = (
            ((1, 5, 7, 1), {"kernel": (2, 2), "stride": (2, 2)}),
            ((2, 7, 5, 8), {"kernel": (3, 3), "stride": (2, 1), "padding": (1, 1, 1, 1)}),
            ((1, 7, 7, 9), {"kernel": (7, 7)}),
            ((1, 11, 3, 7), {"kernel": (3, 2), "stride": (3, 2), "padding": (1, 0, 2, 1)}),
            ((1, 25, 5, 33), {"kernel": (25, 5)}),
        )
        for number, (shape, options) in enumerate(cases):
            x = value("x", shape, 0.02, ZERO_POINTS[number % 4])
            yield make_op(cls, value("y", (), 0.02, x.zero_point), x=x, **options)
        for shape, options in cases if cls is not AvgPool2dUp else ():
            x = in_16_bits(value("x", shape, 0.02))
            bounds = {"low": -(2**15), "high": 2**15 - 1}
            yield make_op(cls, x.like("y", shape=()), x=x, **options, **bounds)


@op("max_pool2d", quantization=Quantization.SHARED)
class MaxPool2d(Pool):
    """Returns the largest value in each window."""

    takes_int16 = True

    @property
    def neutral_padding(self) -> float | None:
        return self.x.dtype.bounds[0] if self.x.dtype is not DType.FLOAT32 else None

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        largest = self.windows(operands[0].astype(np.int32), -(2**31)).max(axis=(-2, -1))
        return self.clamped(largest)


@op("avg_pool2d", quantization=Quantization.SHARED)
class AvgPool2d(Pool):
    """Averages the pixels of each window inside the image; rounds half away from zero on the integers."""

    takes_int16 = True

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums, counts = self.sums(operands[0])
        return self.clamped(numerics.divide_half_away(sums, counts))


@op("avg_pool2d_up", quantization=Quantization.SHARED)
class AvgPool2dUp(Pool):
    """Averages the pixels of each window inside the image as LiteRT's uint8 kernel does: rounds half up. Under
    `cmsis-nn` it rounds half away from zero, as all pools do."""

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        sums, counts = self.sums(operands[0])
        up = (2 * sums + counts) // (2 * counts)
        means = up if arithmetic.is_tflite else numerics.divide_half_away(sums, counts)
        return self.clamped(means)
