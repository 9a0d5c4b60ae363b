# SPDX-License-Identifier: Apache-2.0
"""Writes paddings and pools."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.exact import fused, int8_only, padding_code, refusal
from pillion.codecs.tflite.node import Node, integers
from pillion.emitters.tflite.uint8 import between_uint8
from pillion.ir.types import Pair, PerTensor, TensorType, Value, constant
from pillion.ops.conv import Convolution
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d, Pool
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding


def padded(op: Convolution | Pool, level: int, dilation: Pair = (1, 1)) -> tuple[Value, list[Node], Padding]:
    """Returns an image whose padding is SAME or VALID, and this: the op's operand if one of them is exactly
    its padding, otherwise a padded one with its operator."""
    mode = _padding(op, dilation)
    if mode is not None:
        return op.x, [], mode
    top, left, bottom, right = op.padding
    n, h, w, c = op.x.shape
    shape = (n, top + h + bottom, left + w + right, c)
    y = Value(f"{op.name}/padded", TensorType(shape, op.x.dtype, op.x.type.quant))
    return y, [pad_node(op.name, op.x, y, (0, top, left, 0), (0, bottom, right, 0), level)], Padding.VALID


def _padding(op: Convolution | Pool, dilation: Pair = (1, 1)) -> Padding | None:
    return padding_code(op.x.shape, op.output_shape, op.kernel, op.stride, dilation, op.padding)


def pad_node(
    name: str, x: Value, y: Value, before: tuple[int, ...], after: tuple[int, ...], level: float
) -> Node:
    """Returns the operator of a padding: PAD fills with real zero, PADV2 with any value."""
    paddings = integers(f"{name}/paddings", list(zip(before, after, strict=True)))
    zero = x.zero_point if isinstance(x.type.quant, PerTensor) else 0
    if level == zero:
        return Node("PAD", (x, paddings), (y,), tflite.PadOptions())
    fill = constant(f"{name}/fill", np.full(1, level, x.dtype.numpy), x.type.quant)
    return Node("PADV2", (x, paddings, fill), (y,), tflite.PadV2Options())


def max_pool(op: MaxPool2d) -> list[Node]:
    """Returns the operators of a max pool; the padding has the smallest number."""
    x, before, padding = padded(op, -128)
    return [*before, *_pool(op, x, "MAX_POOL_2D", padding)]


def avg_pool(op: AvgPool2d | AvgPool2dUp) -> list[Node]:
    """Returns the operator of an average pool."""
    padding = _padding(op)
    if padding is None:
        raise refusal(
            op,
            "a window counts the pixels inside the image only: padding is none, or that of SAME",
            f"padding {op.padding}, kernel {op.kernel}, stride {op.stride}, image {op.x.shape[1:3]}",
            "count_include_pad=True makes the padding an op of its own",
        )
    return _pool(op, op.x, "AVERAGE_POOL_2D", padding)


def avg_pool_up(op: AvgPool2dUp) -> list[Node]:
    """Returns the operators of an average pool with ties rounded up, as in the uint8 kernel."""
    first, *bounds = avg_pool(op)
    return [*between_uint8(op, first), *bounds]


def _pool(op: Pool, x: Value, code: str, padding: Padding) -> list[Node]:
    int8_only(op)
    options = tflite.Pool2DOptions(padding=padding)
    options.filter_h, options.filter_w = op.kernel
    options.stride_h, options.stride_w = op.stride
    return fused(op, Node(code, (x,), (op.y,), options))
