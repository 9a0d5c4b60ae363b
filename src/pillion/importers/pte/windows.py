# SPDX-License-Identifier: Apache-2.0
"""Reads convolutions, linear layers, matrix products, pools and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion import ops
from pillion.importers.pte.instructions import ReadCall
from pillion.importers.pte.steps import SameScaleStep, Seen
from pillion.importers.pte.tensor import ReadTensor, SharedQuantParams, constant_tensor
from pillion.ir.numerics import INT32_MAX, Multiplier
from pillion.ir.types import Array, DType, Pair, Shape, Sides
from pillion.ops.conv import output_size
from pillion.ops.softmax import OUTPUT, smallest_difference


def padding_sides(
    call: ReadCall, before: Pair, x: Shape, y: Shape, kernel: Pair, stride: Pair, dilation: Pair
) -> Sides:
    """Returns the padding of all sides. The kernel has the top and left padding; the size of the result determines
    bottom and right."""
    after: list[int] = []
    for axis in (0, 1):
        size, out_size = x[1 + axis], y[1 + axis]
        window = (kernel[axis], stride[axis], dilation[axis])
        if output_size(size, *window, 2 * before[axis]) == out_size:
            after.append(before[axis])
            continue
        extent = dilation[axis] * (kernel[axis] - 1) + 1
        after.append((out_size - 1) * stride[axis] + extent - size - before[axis])
    if min(after) < 0 or max(after) > 2**16:
        raise call.refuse("windows reach the end of the image", f"image {x}, window {kernel}, result {y}")
    return (*before, after[0], after[1])


def conv_weights(call: ReadCall) -> Array:
    """Returns the weights of a convolution, which have four axes."""
    data = call.constant("weights", DType.INT8)
    if data.ndim != 4:
        raise call.refuse("weights have four axes", data.shape)
    return data


def conv2d(call: ReadCall) -> None:
    """Reads a convolution."""
    x, weights = call.image("x"), conv_weights(call)
    if x.shape[3] % weights.shape[3]:
        raise call.refuse("weights are [out, h, w, in / groups]", (weights.shape, x.shape))
    groups = x.shape[3] // weights.shape[3]
    _record_convolution(call, ops.Conv2d, x, weights, 0, groups=groups)


def depthwise_conv2d(call: ReadCall) -> None:
    """Reads a depthwise convolution."""
    x, weights = call.image("x"), conv_weights(call)
    if x.shape[0] != 1 or weights.shape[3] != x.shape[3] * call.number("channel_multiplier"):
        raise call.refuse("one image; weights are [1, h, w, in * multiplier]", (x.shape, weights.shape))
    _record_convolution(call, ops.DepthwiseConv2d, x, weights, 3)


def _record_convolution(
    call: ReadCall, make: Any, x: ReadTensor, weights: Array, axis: int, **fields: Any
) -> None:
    """Records a convolution."""
    stride, before, dilation = map(call.pair, ("stride", "padding", "dilation"))
    kernel, shape = (weights.shape[1], weights.shape[2]), call.out_image
    padding = padding_sides(call, before, x.shape, shape, kernel, stride, dilation)
    fields |= {"stride": stride, "dilation": dilation, "padding": padding}
    _record_weighted_op(call, make, x, weights, axis, fields)


def transpose_conv2d(call: ReadCall) -> None:
    """Reads a transposed convolution."""
    x, weights = call.image("x"), conv_weights(call)
    (top, left), more, dilation = map(call.pair, ("padding", "output_padding", "dilation"))
    if more != (0, 0) or dilation != (1, 1):
        raise call.refuse("no output padding, no dilation", (more, dilation))
    fields = {"stride": call.pair("stride"), "padding": (top, left, top, left)}
    _record_weighted_op(call, ops.TransposeConv2d, x, weights, 0, fields)


def _record_weighted_op(
    call: ReadCall, make: Any, x: ReadTensor, weights: Array, axis: int, fields: dict[str, Any]
) -> None:
    """Records an op with offsets, multipliers and bounds; `axis` of its weights has the results' channels."""
    count = weights.shape[axis]
    multipliers, bias = call.multipliers(count), call.vector("bias", count)
    fields |= call.bounds()
    y = call.make_int8(call.out_image, call.number("y_zero"))
    call.record_op(make, y, _weighted_operands(call, x, y, weights, bias), explicit=multipliers, **fields)


def _weighted_operands(
    call: ReadCall, x: ReadTensor, y: ReadTensor, weights: Array, bias: Array
) -> dict[str, tuple[ReadTensor, Seen]]:
    """Returns the image or rows, and constants named after the result."""
    return {
        "x": (x, -call.number("x_offset")),
        "weights": (constant_tensor(f"{y.name}_weights", weights), 0),
        "bias": (constant_tensor(f"{y.name}_bias", bias), None),
    }


def linear(call: ReadCall) -> None:
    """Reads a fully connected layer."""
    weights, x = call.constant("weights", DType.INT8), call.int8(call.plain("x"))
    if weights.ndim != 2 or x.elements % weights.shape[1] or call.number("weights_offset"):
        raise call.refuse("weights are [out, in] with zero point 0", (weights.shape, x.shape))
    out, features = weights.shape
    x = call.shaped(x, (*x.shape[:-1], features) if x.shape and x.shape[-1] == features else (-1, features))
    multipliers = (Multiplier(*call.integers("multiplier", 1), *call.integers("shift", 1)),)
    bias, bounds = _linear_bias(call, weights), call.bounds()
    y = call.make_int8((*x.shape[:-1], out), call.number("y_zero"))
    call.record_op(
        ops.Linear, y, _weighted_operands(call, x, y, weights, bias), explicit=multipliers, **bounds
    )


def _linear_bias(call: ReadCall, weights: Array) -> Array:
    """Returns the bias: some cores have it directly, others with the zero point's share added."""
    count = len(weights)
    if call.is_null("kernel_sum"):
        return call.vector("bias", count)
    if not call.is_null("bias"):
        raise call.refuse("bias or kernel_sum, not both", "both")
    of_zeros = call.number("x_offset") * weights.astype(np.int64).sum(axis=1)
    sums = call.vector("kernel_sum", count).astype(np.int64) - of_zeros
    if np.abs(sums).max(initial=0) > INT32_MAX:
        raise call.refuse("biases have 32 bits", int(np.abs(sums).max()))
    return sums.astype(np.int32)


def batch_matmul(call: ReadCall) -> None:
    """Reads a matrix product of two tensors."""
    xs: dict[str, tuple[ReadTensor, Seen]] = {
        name: (call.int8(call.plain(name)), -call.number(f"{name}_offset")) for name in "ab"
    }
    y = call.make_int8(call.contiguous_out_shape, call.number("y_zero"))
    call.record_op(ops.BatchMatmul, y, xs, adj_x=False, adj_y=True, explicit=(call.multiplier(),))


def avg_pool2d(call: ReadCall) -> None:
    """Reads an average pool; the kernel ignores zero point and multiplier."""
    _record_pool(call, ops.AvgPool2d, {})


def max_pool2d(call: ReadCall) -> None:
    """Reads a max pool."""
    zero, dilation = call.number("x_zero"), call.pair("dilation")
    if dilation != (1, 1) or call.flag("ceil_mode") or zero != call.number("y_zero"):
        raise call.refuse("no dilation, no ceil mode, one zero point", dilation)
    call.image("x").label.add_known_params(zero)
    _record_pool(call, ops.MaxPool2d, call.bounds())


def _record_pool(call: ReadCall, make: Any, fields: dict[str, Any]) -> None:
    x, shape = call.image("x"), call.out_image
    kernel, stride, before = map(call.pair, ("kernel", "stride", "padding"))
    padding = padding_sides(call, before, x.shape, shape, kernel, stride, (1, 1))
    y = call.make(shape, DType.INT8, x.label)
    geometry = {"kernel": kernel, "stride": stride, "padding": padding}
    call.reader.add(SameScaleStep(call.source, make, ("x",), (x,), y, {**geometry, **fields}))


def softmax(call: ReadCall) -> None:
    """Reads a softmax over the last axis."""
    x, m = call.int8(call.plain("x")), call.multiplier()
    axis, zero, least = map(call.number, ("axis", "y_zero", "least"))
    if not x.shape or axis not in (-1, len(x.shape) - 1) or zero != OUTPUT.zero_point:
        raise call.refuse("softmax is over the last axis, its zero point -128", (axis, zero))
    if least != smallest_difference(m):
        raise call.refuse(f"the smallest difference that counts is {smallest_difference(m)}", least)
    y = call.make(call.contiguous_out_shape, DType.INT8, SharedQuantParams(OUTPUT.scale, OUTPUT.zero_point))
    call.record_op(ops.Softmax, y, {"x": (x, call.number("x_zero"))}, explicit=(m,))
