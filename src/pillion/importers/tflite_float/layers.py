# SPDX-License-Identifier: Apache-2.0
"""Reads layers that int8 files have in other forms: fully connected, transposed convolution, PReLU."""

from __future__ import annotations

from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from pillion.codecs.tflite.operands import bias_of, with_axes
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite_float import readings
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding


def transpose_conv(call: ReadOperator) -> readings.FloatCall:
    """Reads a transposed convolution; SAME crops beyond stride times image."""
    options = call.options_as(tflite.TransposeConvOptions)
    weights, image, y = (with_axes(call, v, 4) for v in (call.constant(1), call.operand(2), call.result))
    stride, kernel = (options.stride_h, options.stride_w), weights.shape[1:3]
    if min(stride) < 1 or options.padding not in (Padding.SAME, Padding.VALID):
        raise call.refuse("strides are positive, padding is SAME or VALID", f"{stride}, {options.padding}")
    full_size = [(size - 1) * s + k for size, s, k in zip(image.shape[1:3], stride, kernel, strict=True)]
    cut = [size - out for size, out in zip(full_size, y.shape[1:3], strict=True)]
    if min(cut) < 0 or weights.shape[3] != image.shape[3]:
        raise call.refuse("the result lies within what the filters reach", f"{full_size} to {list(y.shape)}")
    bias = bias_of(call, 3, image, weights, weights.shape[0])
    filters = readings.as_parameter(weights.constant.transpose(3, 0, 1, 2))
    parts: readings.Parts = {"weight": filters, "bias": readings.as_parameter(bias.constant)}
    after, first = readings.activation(call), [c // 2 for c in cut]

    def forward(x: Tensor) -> Tensor:
        result = F.conv_transpose2d(readings.to_nchw(x), parts["weight"], parts["bias"], stride)
        if any(cut):
            rows, columns = (slice(f, f + n) for f, n in zip(first, y.shape[1:3], strict=True))
            result = result[:, :, rows, columns]
        return readings.to_nhwc(after(result))

    return readings.float_call(call, forward, parts=parts, operands=(2,))


def linear(call: ReadOperator) -> readings.FloatCall:
    """Reads a fully connected layer on rows of features."""
    options, weights = call.options_as(tflite.FullyConnectedOptions), call.operand(1)
    operand, after = call.operand(0), readings.activation(call)
    if options.weights_format or weights.type.rank != 2 or operand.type.elements % weights.shape[1]:
        raise call.refuse("weights are [out, in], and the operand is rows of them", repr(weights))
    out, features = weights.shape
    if options.keep_num_dims and operand.shape[-1:] != (features,):
        raise call.refuse(f"rows have {features} elements", repr(operand))
    rows = operand.shape[:-1] if options.keep_num_dims else (operand.type.elements // features,)
    y = call.result_of_shape((*rows, out))
    shape = y.shape
    if not weights.is_constant:
        product = readings.float_call(
            call, lambda x, w: after(x.reshape(-1, features) @ w.T).reshape(shape), operands=(0, 1)
        )
        return replace(product, results=(y,))
    bias = readings.as_parameter(bias_of(call, 2, operand, weights, out).constant)
    parts: readings.Parts = {"weight": readings.as_parameter(weights.constant), "bias": bias}

    def forward(x: Tensor) -> Tensor:
        rows = x if x.shape[-1] == features and x.ndim > 1 else x.reshape(-1, features)
        result = after(F.linear(rows, parts["weight"], parts["bias"]))
        return result if tuple(result.shape) == shape else result.reshape(shape)

    return replace(readings.float_call(call, forward, parts=parts), results=(y,))


def prelu(call: ReadOperator) -> readings.FloatCall:
    """Reads a leaky relu with a slope per channel, or a common one."""
    slope = call.constant(1)
    channels = call.operand(0).shape[-1]
    if slope.type.elements not in (1, channels) or slope.shape[-1:] not in ((), (1,), (channels,)):
        raise call.refuse("there is one slope, or one for each channel", repr(slope))
    parts: readings.Parts = {"weight": readings.as_parameter(slope.constant.reshape(-1))}
    rank = call.operand(0).type.rank
    order = (0, rank - 1, *range(1, rank - 1))
    back = (0, *range(2, rank), 1)

    def forward(x: Tensor) -> Tensor:
        return (
            F.prelu(x.permute(order), parts["weight"]).permute(back)
            if rank > 2
            else F.prelu(x, parts["weight"])
        )

    return readings.float_call(call, forward, parts=parts)


ROWS: dict[str, readings.Reading] = {
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": linear,
    "PRELU": prelu,
}
"""The readers of this file, by operator name."""
