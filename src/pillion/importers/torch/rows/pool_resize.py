# SPDX-License-Identifier: Apache-2.0
"""Rows of pools and resizes over channels-last images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pillion.importers.torch.layout import NHWC, Builder, LayoutValue
from pillion.importers.torch.rows.byte_functions import as_int8
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import (
    Lowering,
    aten,
    height_and_width,
    lowers,
    symmetric_padding,
    unsupported_call_error,
)
from pillion.ir.op import Op
from pillion.ir.types import Pair, Shape, Sides, Value
from pillion.ops import AvgPool2d, MaxPool2d, Pad, ResizeBilinear, ResizeNearest


@lowers(aten.max_pool2d.default, quantized=rule_of_op(MaxPool2d))
def max_pool2d(
    b: Builder,
    x: LayoutValue,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> LayoutValue:
    """Lowers a max pool without dilation."""
    assert height_and_width(dilation) == (1, 1), "dilation is decomposed (`decompositions.pools`)"
    return _emit_pool(b, MaxPool2d, x, kernel_size, stride, symmetric_padding(padding), ceil_mode)


@lowers(aten.avg_pool2d.default, quantized=rule_of_op(AvgPool2d))
def avg_pool2d(
    b: Builder,
    x: LayoutValue,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> LayoutValue:
    """Lowers an average pool. If padding counts, the image is padded first."""
    assert divisor_override is None, "divisors are decomposed (`decompositions.pools`)"
    border = symmetric_padding(padding)
    if count_include_pad and any(border):
        top, left, bottom, right = border
        image, batched = _as_image(b, x)
        around: dict[str, Any] = {"before": (0, top, left, 0), "after": (0, bottom, right, 0)}
        padded = LayoutValue(b.emit(Pad, x=image, value=0.0, name=f"{b.hint}_padded", **around), NHWC)
        y = _emit_pool(b, AvgPool2d, padded, kernel_size, stride, (0, 0, 0, 0), ceil_mode, reach=border)
        return y if batched else _without_batch(b, y.value)
    return _emit_pool(b, AvgPool2d, x, kernel_size, stride, border, ceil_mode)


def _emit_pool(
    b: Builder,
    cls: type[Op],
    x: LayoutValue,
    kernel_size: Any,
    stride: Any,
    padding: Sides,
    ceil_mode: bool,
    reach: Sides = (0, 0, 0, 0),
) -> LayoutValue:
    """Emits a pool. `reach` is padding that is already part of the image; PyTorch's ceil rule counts it as
    padding."""
    kernel = height_and_width(kernel_size)
    step = height_and_width(stride) if stride not in ((), []) else kernel
    image, batched = _as_image(b, x)
    if ceil_mode:
        padding = _ceil_padding(image.shape[1:3], kernel, step, padding, reach)
    y = b.emit(cls, x=image, kernel=kernel, stride=step, padding=padding)
    return LayoutValue(y, NHWC) if batched else _without_batch(b, y)


def _as_image(b: Builder, x: LayoutValue) -> tuple[Value, bool]:
    """Returns a tensor with or without a batch axis as [N, H, W, C]."""
    if x.rank == 4:
        return b.arrange(x, NHWC), True
    value = b.arrange(x, (1, 2, 0))
    return b.reshape(value, (1, *value.shape)), False


def _without_batch(b: Builder, image: Value) -> LayoutValue:
    return LayoutValue(b.reshape(image, image.shape[1:]), (1, 2, 0))


def _ceil_padding(image: Sequence[int], kernel: Pair, stride: Pair, padding: Sides, reach: Sides) -> Sides:
    """Returns the extra padding at the bottom and right for partial windows, which must begin inside the image or its
    top and left padding."""
    more = []
    for axis in (0, 1):
        before, after = padding[axis], padding[axis + 2]
        start_limit = image[axis] + before - reach[axis + 2]
        positions = math.ceil((image[axis] + before + after - kernel[axis]) / stride[axis]) + 1
        if (positions - 1) * stride[axis] >= start_limit:
            positions -= 1
        reached = (positions - 1) * stride[axis] + kernel[axis] - image[axis] - before
        more.append(max(reached, after if positions < 1 else 0))
    return (padding[0], padding[1], more[0], more[1])


Sizes = Sequence[int] | None
Factors = Sequence[float] | None


def _nearest_lowering(**corners: bool) -> Lowering:
    """Returns the lowering of a nearest-neighbour resize."""
    return lambda b, x, size, factors=None: _emit_resize(b, ResizeNearest, x, size, factors, **corners)


lowers(aten.upsample_nearest2d.vec, quantized=rule_of_op(ResizeNearest, numbers=True))(_nearest_lowering())
lowers(aten._upsample_nearest_exact2d.vec, quantized=rule_of_op(ResizeNearest, numbers=True))(
    _nearest_lowering(half_pixel=True)
)


@lowers(aten.upsample_bilinear2d.vec, quantized=rule_of_op(ResizeBilinear, numbers=True))
def bilinear(
    b: Builder, x: LayoutValue, output_size: Sizes, align_corners: bool, scale_factors: Factors = None
) -> LayoutValue:
    """Lowers a bilinear resize."""
    corners = {"align_corners": align_corners, "half_pixel": not align_corners}
    return _emit_resize(b, ResizeBilinear, x, output_size, scale_factors, **corners)


def _emit_resize(
    b: Builder, cls: type[Op], x: LayoutValue, size: Sizes, factors: Factors, **corners: Any
) -> LayoutValue:
    if x.rank != 4:
        raise unsupported_call_error(
            "this resize is not supported",
            "resize: images of rank 4",
            f"shape {list(x.shape)}",
            "reshape to [N, C, H, W] before, and back after",
        )
    x = as_int8(b, x)
    y = b.emit(cls, x=b.arrange(x, NHWC), size=_resize_output_size(x.shape[2:], size, factors), **corners)
    return LayoutValue(y, NHWC)


def _resize_output_size(before: Shape, size: Sizes, factors: Factors) -> Pair:
    """Returns the height and width of the result, from the size or from exact factors."""
    if factors is None:
        assert size is not None, "either is given"
        return (size[0], size[1])
    exact = [d * f for d, f in zip(before, factors, strict=True)]
    if not all(math.isclose(e, round(e)) for e in exact):
        raise unsupported_call_error(
            "resize by this factor is not supported",
            "resize: the factor times the size is a whole number",
            f"{list(before)} by {list(factors)}",
            "give the wanted size instead of factors",
        )
    return (round(exact[0]), round(exact[1]))
