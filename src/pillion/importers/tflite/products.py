# SPDX-License-Identifier: Apache-2.0
"""Rows for products of tensors, transposed convolution, resizing, slopes, divisions and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pillion.importers.tflite.geometry import axis_of, levels
from pillion.importers.tflite.model import Call
from pillion.importers.tflite.movement import reshaped
from pillion.importers.tflite.operands import bias_of, int8_only, with_axes
from pillion.ir.op import Op
from pillion.ir.types import Pair, Sides, Value
from pillion.ops.conv import without_idle_biases
from pillion.ops.div import Div
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Reshape
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding

Row = Callable[[Call], list[Op]]

LARGEST_IMAGE = 2**15
"""The largest side of a resize, whose positions are in 32 bits, 10 of them below the pixel."""


def _batch_matmul(call: Call) -> list[Op]:
    """All axes before the last two are one batch."""
    int8_only(call, 2)
    options, y = call.options_as(tflite.BatchMatMulOptions), call.result
    made = [_as_batch(call, call.operand(number)) for number in (0, 1)]
    (before_a, a), (before_b, b) = made
    if y.type.rank < 2 or {v.shape[:-2] for v in (call.operand(0), call.operand(1))} != {y.shape[:-2]}:
        raise call.refuse("operands and result have the same batches", [call.operand(0), call.operand(1), y])
    shape = (a.shape[0], *y.shape[-2:])
    product = y if y.shape == shape else call.intermediate("product", shape, y)
    op = BatchMatmul(a=a, b=b, y=product, adj_x=options.adj_x, adj_y=options.adj_y, source=call.source)
    return [
        *before_a,
        *before_b,
        op,
        *([] if product is y else [Reshape(x=product, y=y, source=call.source)]),
    ]


def _as_batch(call: Call, x: Value) -> tuple[list[Op], Value]:
    if x.type.rank < 2:
        raise call.refuse("a matrix has two axes", repr(x))
    batches = x.type.elements // (x.shape[-2] * x.shape[-1])
    return reshaped(call, x, (batches, *x.shape[-2:]))


def _transpose_conv(call: Call) -> list[Op]:
    """The shape of the result comes first, then weights, image and bias."""
    x, weights, y = with_axes(call, call.operand(2), 4), with_axes(call, call.constant(1), 4), call.result
    int8_only(call, 0)
    call.want_shape(0, y.shape)
    options = call.options_as(tflite.TransposeConvOptions)
    stride = (options.stride_h, options.stride_w)
    padding, output_padding = _cut_and_added(call, options.padding, x, weights, stride)
    bias, bounds = bias_of(call, 3, x, weights, weights.shape[0]), levels(call, y, options.fused_activation)
    made = TransposeConv2d(
        x=x,
        weights=weights,
        bias=bias,
        y=y,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        low=bounds["low"],
        high=bounds["high"],
        source=call.source,
    )
    return [without_idle_biases(made, call.fresh)]


def _cut_and_added(call: Call, code: int, x: Value, weights: Value, stride: Pair) -> tuple[Sides, Pair]:
    """What SAME cuts off on each side, and what the result has more than the kernels reach."""
    y = with_axes(call, call.result, 4)
    if min(stride) < 1 or code not in (Padding.SAME, Padding.VALID):
        raise call.refuse("strides are positive, padding is SAME or VALID", f"{stride}, {code}")
    whole = [(size - 1) * s + k for size, s, k in zip(x.shape[1:3], stride, weights.shape[1:3], strict=True)]
    more = [out - reach for out, reach in zip(y.shape[1:3], whole, strict=True)]
    if code == Padding.SAME and y.shape[1:3] != (x.shape[1] * stride[0], x.shape[2] * stride[1]):
        raise call.refuse(
            "SAME: the result is the stride times as large", f"{list(x.shape)} to {list(y.shape)}"
        )
    if code == Padding.VALID and min(more) < 0:
        raise call.refuse("VALID: the result holds all that the kernels reach", f"{whole} in {list(y.shape)}")
    top, left = (max(-m, 0) // 2 for m in more)
    bottom, right = (max(-m, 0) - first for m, first in zip(more, (top, left), strict=True))
    return (top, left, bottom, right), (max(more[0], 0), max(more[1], 0))


def _resize(cls: Any, options: Any) -> Row:
    def row(call: Call) -> list[Op]:
        int8_only(call)
        y, where = with_axes(call, call.result, 4), call.options_as(options)
        size = (y.shape[1], y.shape[2])
        call.want_shape(1, size)
        if max(size) > LARGEST_IMAGE:
            raise call.refuse(f"an image has at most {LARGEST_IMAGE} rows and columns", size)
        align_corners, half_pixel = where.align_corners, where.half_pixel_centers
        fields = {"size": size, "align_corners": align_corners, "half_pixel": half_pixel}
        return [cls(x=call.operand(0), y=y, source=call.source, **fields)]

    return row


def _prelu(call: Call) -> list[Op]:
    int8_only(call, 2)
    return [Prelu(x=call.operand(0), slope=call.operand(1), y=call.result, source=call.source)]


def _div(call: Call) -> list[Op]:
    int8_only(call, 2)
    bounds = levels(call, call.result, call.options_as(tflite.DivOptions).fused_activation)
    op = Div(a=call.operand(0), b=call.operand(1), y=call.result, source=call.source, **bounds)
    if not op.is_defined_in_litert:
        raise call.refuse(
            "the ratio of the scales is so large that LiteRT defines every quotient", repr(op.ratio)
        )
    return [op]


def _reduction(cls: Any) -> Row:
    def row(call: Call) -> list[Op]:
        int8_only(call)
        x = call.operand(0)
        axes = tuple(sorted({axis_of(call, axis, x.type.rank) for axis in call.integers(1)}))
        keepdims = call.options_as(tflite.ReducerOptions).keep_dims
        return [cls(x=x, y=call.result, axes=axes, keepdims=keepdims, source=call.source)]

    return row


ROWS: dict[str, Row] = {
    "BATCH_MATMUL": _batch_matmul,
    "TRANSPOSE_CONV": _transpose_conv,
    "RESIZE_NEAREST_NEIGHBOR": _resize(ResizeNearest, tflite.ResizeNearestNeighborOptions),
    "RESIZE_BILINEAR": _resize(ResizeBilinear, tflite.ResizeBilinearOptions),
    "PRELU": _prelu,
    "DIV": _div,
    "SUM": _reduction(ReduceSum),
    "REDUCE_MAX": _reduction(ReduceMax),
    "REDUCE_MIN": _reduction(ReduceMin),
}
