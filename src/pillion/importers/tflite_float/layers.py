# SPDX-License-Identifier: Apache-2.0
"""Reads layers with weights, pools and resizes as PyTorch functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion.codecs.tflite.geometry import sides
from pillion.codecs.tflite.operands import with_axes
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite_float.readings import (
    FloatCall,
    Parts,
    Reading,
    activation,
    float_call,
    nchw,
    nhwc,
)
from pillion.ir.types import Array, Sides, Value
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding


def parameter(array: Array) -> nn.Parameter:
    """Returns an array as a parameter, copied."""
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)), requires_grad=False)


def bias_of(call: ReadOperator, number: int, count: int) -> nn.Parameter:
    """Returns the bias; zeros if it is omitted."""
    operand = call.optional(number)
    bias = np.zeros(count, np.float32) if operand is None else call.constant(number).constant
    if bias.shape != (count,):
        raise call.refuse(f"there are {count} biases", list(bias.shape))
    return parameter(bias)


def weights_of(call: ReadOperator, number: int, rank: int) -> Value:
    """Returns the weights, constants of this rank."""
    return with_axes(call, call.constant(number), rank)


def conv(call: ReadOperator) -> FloatCall:
    """Reads a convolution, grouped if the filters have fewer channels than the image."""
    options, weights = call.options_as(tflite.Conv2DOptions), weights_of(call, 1, 4)
    image = with_axes(call, call.operand(0), 4)
    groups = max(image.shape[3] // max(weights.shape[3], 1), 1)
    return _convolution(call, options, image, weights.constant.transpose(0, 3, 1, 2), groups)


def depthwise(call: ReadOperator) -> FloatCall:
    """Reads a depthwise convolution."""
    options, weights = call.options_as(tflite.DepthwiseConv2DOptions), weights_of(call, 1, 4)
    image = with_axes(call, call.operand(0), 4)
    return _convolution(call, options, image, weights.constant.transpose(3, 0, 1, 2), image.shape[3])


def _convolution(
    call: ReadOperator,
    options: tflite.Conv2DOptions | tflite.DepthwiseConv2DOptions,
    image: Value,
    filters: Array,
    groups: int,
) -> FloatCall:
    out, channels = filters.shape[:2]
    if channels * groups != image.shape[3] or out % groups:
        raise call.refuse("filters fit the channels of the image", f"{list(filters.shape)} and {image!r}")
    stride, dilation = (options.stride_h, options.stride_w), (options.dilation_h, options.dilation_w)
    border = sides(call, options.padding, image.shape, filters.shape[2:], stride, dilation)
    parts: Parts = {"weight": parameter(filters), "bias": bias_of(call, 2, out)}
    after = activation(call, options.fused_activation)

    def forward(x: Tensor) -> Tensor:
        padded, padding = _pad_if_asymmetric(nchw(x), border)
        result = F.conv2d(padded, parts["weight"], parts["bias"], stride, padding, dilation, groups)
        return nhwc(after(result))

    return float_call(call, forward, parts=parts)


def _pad_if_asymmetric(x: Tensor, border: Sides) -> tuple[Tensor, tuple[int, int]]:
    """Returns the padding of the layer if it is symmetric, otherwise the padded image."""
    top, left, bottom, right = border
    if (top, left) == (bottom, right):
        return x, (top, left)
    return F.pad(x, (left, right, top, bottom)), (0, 0)


def transpose_conv(call: ReadOperator) -> FloatCall:
    """Reads a transposed convolution; SAME crops beyond stride times image."""
    options, weights = call.options_as(tflite.TransposeConvOptions), weights_of(call, 1, 4)
    image, y = with_axes(call, call.operand(2), 4), with_axes(call, call.result, 4)
    stride, kernel = (options.stride_h, options.stride_w), weights.shape[1:3]
    if min(stride) < 1 or options.padding not in (Padding.SAME, Padding.VALID):
        raise call.refuse("strides are positive, padding is SAME or VALID", f"{stride}, {options.padding}")
    full_size = [(size - 1) * s + k for size, s, k in zip(image.shape[1:3], stride, kernel, strict=True)]
    cut = [size - out for size, out in zip(full_size, y.shape[1:3], strict=True)]
    if min(cut) < 0 or weights.shape[3] != image.shape[3]:
        raise call.refuse("the result lies within what the filters reach", f"{full_size} to {list(y.shape)}")
    filters = weights.constant.transpose(3, 0, 1, 2)
    parts: Parts = {"weight": parameter(filters), "bias": bias_of(call, 3, filters.shape[1])}
    after, first = activation(call, options.fused_activation), [c // 2 for c in cut]

    def forward(x: Tensor) -> Tensor:
        result = F.conv_transpose2d(nchw(x), parts["weight"], parts["bias"], stride)
        if any(cut):
            rows, columns = (slice(f, f + n) for f, n in zip(first, y.shape[1:3], strict=True))
            result = result[:, :, rows, columns]
        return nhwc(after(result))

    return float_call(call, forward, parts=parts, operands=(2,))


def linear(call: ReadOperator) -> FloatCall:
    """Reads a fully connected layer on rows of features."""
    options, weights = call.options_as(tflite.FullyConnectedOptions), call.operand(1)
    shape, after = call.result.shape, activation(call, options.fused_activation)
    if options.weights_format or weights.type.rank != 2 or call.operand(0).type.elements % weights.shape[1]:
        raise call.refuse("weights are [out, in], and the operand is rows of them", repr(weights))
    features = weights.shape[1]
    if not weights.is_constant:
        return float_call(
            call, lambda x, w: after(x.reshape(-1, features) @ w.T).reshape(shape), operands=(0, 1)
        )
    parts: Parts = {"weight": parameter(weights.constant), "bias": bias_of(call, 2, weights.shape[0])}

    def forward(x: Tensor) -> Tensor:
        rows = x if x.shape[-1] == features and x.ndim > 1 else x.reshape(-1, features)
        result = after(F.linear(rows, parts["weight"], parts["bias"]))
        return result if tuple(result.shape) == shape else result.reshape(shape)

    return float_call(call, forward, parts=parts)


def pool(largest: bool) -> Callable[[ReadOperator], FloatCall]:
    """Returns the reader of a pool, which counts only pixels inside the image. With more padding at the
    bottom or right, windows end outside."""

    def row(call: ReadOperator) -> FloatCall:
        options, image = call.options_as(tflite.Pool2DOptions), with_axes(call, call.operand(0), 4)
        kernel, stride = (options.filter_h, options.filter_w), (options.stride_h, options.stride_w)
        top, left, bottom, right = sides(call, options.padding, image.shape, kernel, stride, (1, 1))
        after = activation(call, options.fused_activation)
        more = (bottom - top, right - left)
        if any(m and s == 1 for m, s in zip(more, stride, strict=True)) or max(2 * top, 2 * left) > min(
            kernel
        ):
            raise call.refuse(
                "a pool with stride 1 has the same padding on both sides",
                f"kernel {kernel}, stride {stride}, image {list(image.shape)}",
                "use an odd window, or valid padding",
            )

        def forward(x: Tensor) -> Tensor:
            if largest:
                pooled = F.max_pool2d(nchw(x), kernel, stride, (top, left), ceil_mode=any(more))
            else:
                pooled = F.avg_pool2d(
                    nchw(x), kernel, stride, (top, left), any(more), count_include_pad=False
                )
            return nhwc(after(pooled))

        return float_call(call, forward)

    return row


def prelu(call: ReadOperator) -> FloatCall:
    """Reads a leaky relu with a slope per channel, or a common one."""
    slope = call.constant(1)
    channels = call.operand(0).shape[-1]
    if slope.type.elements not in (1, channels) or slope.shape[-1:] not in ((), (1,), (channels,)):
        raise call.refuse("there is one slope, or one for each channel", repr(slope))
    parts: Parts = {"weight": parameter(slope.constant.reshape(-1))}
    rank = call.operand(0).type.rank
    order = (0, rank - 1, *range(1, rank - 1))
    back = (0, *range(2, rank), 1)

    def forward(x: Tensor) -> Tensor:
        return (
            F.prelu(x.permute(order), parts["weight"]).permute(back)
            if rank > 2
            else F.prelu(x, parts["weight"])
        )

    return float_call(call, forward, parts=parts)


def bilinear(call: ReadOperator) -> FloatCall:
    """Reads a bilinear resize. The legacy form is that of aligned corners, with a repeated last row and
    column that is cropped."""
    image, y = with_axes(call, call.operand(0), 4), with_axes(call, call.result, 4)
    size = (y.shape[1], y.shape[2])
    call.require_shape(1, size)
    options = call.options_as(tflite.ResizeBilinearOptions)

    def oldest(x: Tensor) -> Tensor:
        longer = torch.cat((x, x[:, -1:]), 1)
        wider = torch.cat((longer, longer[:, :, -1:]), 2)
        more = (size[0] + 1, size[1] + 1)
        resized = F.interpolate(nchw(wider), size=more, mode="bilinear", align_corners=True)
        return nhwc(resized)[:, : size[0], : size[1]]

    def forward(x: Tensor) -> Tensor:
        return nhwc(F.interpolate(nchw(x), size=size, mode="bilinear", align_corners=options.align_corners))

    is_old = not (options.align_corners or options.half_pixel_centers)
    return float_call(call, oldest if is_old and size != image.shape[1:3] else forward)


def nearest(call: ReadOperator) -> FloatCall:
    """Reads a nearest resize."""
    y, options = with_axes(call, call.result, 4), call.options_as(tflite.ResizeNearestNeighborOptions)
    size = (y.shape[1], y.shape[2])
    call.require_shape(1, size)
    if options.align_corners:
        raise call.refuse("pixels are repeated without aligned corners", "align_corners")
    mode = "nearest-exact" if options.half_pixel_centers else "nearest"
    return float_call(call, lambda x: nhwc(F.interpolate(nchw(x), size=size, mode=mode)))


ROWS: dict[str, Reading] = {
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": linear,
    "MAX_POOL_2D": pool(largest=True),
    "AVERAGE_POOL_2D": pool(largest=False),
    "PRELU": prelu,
    "RESIZE_BILINEAR": bilinear,
    "RESIZE_NEAREST_NEIGHBOR": nearest,
}
"""The readers of this file, by operator name."""
