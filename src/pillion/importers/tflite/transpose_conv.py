# SPDX-License-Identifier: Apache-2.0
"""Reads transposed convolutions."""

from __future__ import annotations

from pillion.codecs.tflite.geometry import levels
from pillion.codecs.tflite.operands import INT8_OR_16, bias_of, require_int8, with_axes
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import Pair, Sides, Value
from pillion.ops.layer import zero_dead_channel_biases
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding


def transpose_conv(call: ReadOperator) -> list[Op]:
    """Reads a transposed convolution; its operands are the result's shape, weights, image and bias."""
    x, weights, y = with_axes(call, call.operand(2), 4), with_axes(call, call.constant(1), 4), call.result
    require_int8(call, 0, INT8_OR_16)
    call.require_shape(0, y.shape)
    options = call.options_as(tflite.TransposeConvOptions)
    stride = (options.stride_h, options.stride_w)
    padding, output_padding = _crop_and_extension(call, options.padding, x, weights, stride)
    bias, bounds = bias_of(call, 3, x, weights, weights.shape[0]), levels(call, y, options.fused_activation)
    op = TransposeConv2d(
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
    return [zero_dead_channel_biases(op, call.fresh)]


def _crop_and_extension(
    call: ReadOperator, code: int, x: Value, weights: Value, stride: Pair
) -> tuple[Sides, Pair]:
    """Returns the crop of SAME on each side, and the result's extension beyond the kernels."""
    y = with_axes(call, call.result, 4)
    if min(stride) < 1 or code not in (Padding.SAME, Padding.VALID):
        raise call.refuse("strides are positive, padding is SAME or VALID", f"{stride}, {code}")
    full_size = [
        (size - 1) * s + k for size, s, k in zip(x.shape[1:3], stride, weights.shape[1:3], strict=True)
    ]
    more = [out - reach for out, reach in zip(y.shape[1:3], full_size, strict=True)]
    if code == Padding.SAME and y.shape[1:3] != (x.shape[1] * stride[0], x.shape[2] * stride[1]):
        raise call.refuse(
            "SAME: the result is the stride times as large", f"{list(x.shape)} to {list(y.shape)}"
        )
    if code == Padding.VALID and min(more) < 0:
        raise call.refuse(
            "VALID: the result holds all that the kernels reach", f"{full_size} in {list(y.shape)}"
        )
    top, left = (max(-m, 0) // 2 for m in more)
    bottom, right = (max(-m, 0) - first for m, first in zip(more, (top, left), strict=True))
    return (top, left, bottom, right), (max(more[0], 0), max(more[1], 0))
