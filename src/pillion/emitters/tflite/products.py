# SPDX-License-Identifier: Apache-2.0
"""Rows for products of tensors, transposed convolution, resizing, slopes, divisions and reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pillion.emitters.tflite.exact import (
    bias_of,
    bounded,
    fused,
    int8_only,
    refusal,
    symmetric,
    want_constants,
)
from pillion.emitters.tflite.node import Node, Row, integers
from pillion.ir.op import Op
from pillion.ir.types import TensorType, Value
from pillion.ops.div import Div
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import Resize, ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.schemas import tflite
from pillion.schemas.tflite import Activation, Padding


def _batch_matmul(op: BatchMatmul) -> list[Node]:
    """BATCH_MATMUL carries no activation."""
    int8_only(op, *op.operands, op.y)
    options = tflite.BatchMatMulOptions(adj_x=op.adj_x, adj_y=op.adj_y)
    return plain(op, lambda y: Node("BATCH_MATMUL", (op.a, op.b), (y,), options))


def plain(op: BatchMatmul, build: Callable[[Value], Node]) -> list[Node]:
    """Gives the operator, followed by its bounds where it has some."""
    if (op.low, op.high) == (-128, 127):
        return [build(op.y)]
    unbounded = Value(f"{op.name}/unbounded", op.y.type)
    return [build(unbounded), *bounded(op, unbounded, op.y, op.low, op.high)]


def _transpose_conv(op: TransposeConv2d) -> list[Node]:
    """VALID, which makes the whole result, and a slice of it where something is cut off."""
    int8_only(op)
    want_constants(op, op.weights, op.bias)
    if op.dilation != (1, 1):
        raise refusal(op, "TRANSPOSE_CONV: the dilation is 1", op.dilation)
    shape = (op.x.shape[0], *op.whole, op.weights_out_channels)
    whole = (
        Value(f"{op.name}/whole", TensorType(shape, op.y.dtype, op.y.type.quant)) if any(op.padding) else op.y
    )
    inputs = (integers(f"{op.name}/shape", shape), symmetric(op, op.weights), op.x, bias_of(op))
    options = tflite.TransposeConvOptions(padding=Padding.VALID, stride_h=op.stride[0], stride_w=op.stride[1])

    def build(y: Value, activation: Activation) -> Node:
        return Node("TRANSPOSE_CONV", inputs, (y,), replace(options, fused_activation=activation))

    return [*fused(op, whole, op.low, op.high, build), *_cut(op, whole)]


def _cut(op: TransposeConv2d, whole: Value) -> list[Node]:
    if whole is op.y:
        return []
    begin = integers(f"{op.name}/begin", (0, op.padding[0], op.padding[1], 0))
    return [
        Node("SLICE", (whole, begin, integers(f"{op.name}/size", op.y.shape)), (op.y,), tflite.SliceOptions())
    ]


def _resize(
    code: str, options: type[tflite.ResizeBilinearOptions | tflite.ResizeNearestNeighborOptions]
) -> Row:
    def row(op: Resize) -> list[Node]:
        int8_only(op)
        where = options(align_corners=op.align_corners, half_pixel_centers=op.half_pixel)
        return [Node(code, (op.x, integers(f"{op.name}/size", op.size)), (op.y,), where)]

    return row


def _prelu(op: Prelu) -> list[Node]:
    int8_only(op, *op.operands, op.y)
    return [Node("PRELU", (op.x, op.slope), (op.y,))]


def _div(op: Div) -> list[Node]:
    """LiteRT itself stops where a computed divisor is zero."""
    int8_only(op, *op.operands, op.y)
    if not op.is_defined_in_litert:
        rule = "DIV: the ratio of the scales lets LiteRT shift every quotient by at most 31 places"
        raise refusal(op, rule, f"{op.ratio!r}", "multiply by the reciprocal")

    def build(y: Value, activation: Activation) -> Node:
        return Node("DIV", (op.a, op.b), (y,), tflite.DivOptions(fused_activation=activation))

    return fused(op, op.y, op.low, op.high, build)


def _reduction(code: str) -> Row:
    def row(op: ReduceSum | ReduceMax | ReduceMin) -> list[Node]:
        int8_only(op)
        axes = integers(f"{op.name}/axes", op.axes)
        return [Node(code, (op.x, axes), (op.y,), tflite.ReducerOptions(keep_dims=op.keepdims))]

    return row


ROWS: dict[type[Op], Row | None] = {
    TransposeConv2d: _transpose_conv,
    BatchMatmul: _batch_matmul,
    Div: _div,
    Prelu: _prelu,
    ReduceSum: _reduction("SUM"),
    ReduceMax: _reduction("REDUCE_MAX"),
    ReduceMin: _reduction("REDUCE_MIN"),
    ResizeNearest: _resize("RESIZE_NEAREST_NEIGHBOR", tflite.ResizeNearestNeighborOptions),
    ResizeBilinear: _resize("RESIZE_BILINEAR", tflite.ResizeBilinearOptions),
}
