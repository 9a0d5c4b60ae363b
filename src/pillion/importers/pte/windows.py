# SPDX-License-Identifier: Apache-2.0
"""Reads convolutions, linear layers, matrix products, pools and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion.importers.pte.instructions import ReadCall
from pillion.importers.pte.steps import SameScaleStep, Seen
from pillion.importers.pte.tensor import ReadTensor, SharedQuantParams, constant_tensor
from pillion.ir.numerics import INT32_MAX, Multiplier
from pillion.ir.types import Array, DType, Pair, Shape, Sides
from pillion.ops import (
    AvgPool2d,
    BatchMatmul,
    Conv2d,
    DepthwiseConv2d,
    Linear,
    MaxPool2d,
    Softmax,
    TransposeConv2d,
)
from pillion.ops.conv import output_size
from pillion.ops.softmax import OUTPUT, smallest_difference


def sides(
    call: ReadCall, before: Pair, x: Shape, y: Shape, kernel: Pair, stride: Pair, dilation: Pair
) -> Sides:
    """Returns the padding of all sides: the kernel has the top and left ones, the size of the result
    determines the others."""
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


def conv_weights(call: ReadCall, place: int) -> Array:
    """Returns the weights of a convolution, which have four axes."""
    data = call.constant(place, DType.INT8)
    if data.ndim != 4:
        raise call.refuse(f"argument {place} has four axes", data.shape)
    return data


def conv2d(call: ReadCall) -> None:
    """Reads a convolution."""
    x, weights = call.image(0), conv_weights(call, 1)
    if x.shape[3] % weights.shape[3]:
        raise call.refuse("weights are [out, h, w, in / groups]", (weights.shape, x.shape))
    groups = x.shape[3] // weights.shape[3]
    _convolution(call, Conv2d, x, weights, 0, 0, {"groups": groups})


def depthwise_conv2d(call: ReadCall) -> None:
    """Reads a depthwise convolution."""
    x, weights = call.image(0), conv_weights(call, 1)
    if x.shape[0] != 1 or weights.shape[3] != x.shape[3] * call.number(6):
        raise call.refuse("one image; weights are [1, h, w, in * multiplier]", (x.shape, weights.shape))
    _convolution(call, DepthwiseConv2d, x, weights, 3, 1, {})


def _convolution(
    call: ReadCall, make: Any, x: ReadTensor, weights: Array, axis: int, more: int, fields: dict[str, Any]
) -> None:
    """Records a convolution; `more` arguments precede the input offset in addition to those of a regular
    one."""
    stride, before, dilation = call.pair(3), call.pair(4), call.pair(5)
    kernel, shape = (weights.shape[1], weights.shape[2]), call.out_image
    padding = sides(call, before, x.shape, shape, kernel, stride, dilation)
    fields = {**fields, "stride": stride, "dilation": dilation, "padding": padding}
    _record_weighted_op(call, make, x, weights, axis, 6 + more, fields)


def transpose_conv2d(call: ReadCall) -> None:
    """Reads a transposed convolution."""
    x, weights = call.image(0), conv_weights(call, 1)
    stride, (top, left), dilation = call.pair(3), call.pair(4), call.pair(6)
    if call.pair(5) != (0, 0) or dilation != (1, 1):
        raise call.refuse("no output padding, no dilation", (call.pair(5), dilation))
    fields = {"stride": stride, "padding": (top, left, top, left)}
    _record_weighted_op(call, TransposeConv2d, x, weights, 0, 7, fields)


def _record_weighted_op(
    call: ReadCall, make: Any, x: ReadTensor, weights: Array, axis: int, first: int, fields: dict[str, Any]
) -> None:
    """Records an op whose offsets, multipliers and bounds start at argument `first`."""
    count = weights.shape[axis]
    zeros = (call.level(first, -1), call.level(first + 1))
    multipliers = call.multipliers(first + 2, first + 3, count)
    bias, bounds = call.vector(2, count), call.bounds(first + 4, first + 5)
    y = call.make_int8(call.out_image, zeros[1])
    call.record_op(
        make, y, _weighted_operands(x, zeros[0], y, weights, bias), given=multipliers, **fields, **bounds
    )


def _weighted_operands(
    x: ReadTensor, zero_point: int, y: ReadTensor, weights: Array, bias: Array
) -> dict[str, tuple[ReadTensor, Seen]]:
    """Returns the image or rows, and constants named after the result."""
    return {
        "x": (x, zero_point),
        "weights": (constant_tensor(f"{y.name}_weights", weights), 0),
        "bias": (constant_tensor(f"{y.name}_bias", bias), None),
    }


def linear(call: ReadCall) -> None:
    """Reads a fully connected layer."""
    weights = call.constant(1, DType.INT8)
    x = call.int8(call.plain(0))
    if weights.ndim != 2 or x.elements % weights.shape[1] or call.number(5):
        raise call.refuse("weights are [out, in] with zero point 0", (weights.shape, x.shape, call.number(5)))
    out, features = weights.shape
    x = call.shaped(x, (*x.shape[:-1], features) if x.shape and x.shape[-1] == features else (-1, features))
    zeros = (call.level(4, -1), call.level(6))
    multipliers = (Multiplier(*call.integers(7, 1), *call.integers(8, 1)),)
    bias, bounds = _linear_bias(call, weights, zeros[0]), call.bounds(10, 9)
    y = call.make_int8((*x.shape[:-1], out), zeros[1])
    call.record_op(Linear, y, _weighted_operands(x, zeros[0], y, weights, bias), given=multipliers, **bounds)


def _linear_bias(call: ReadCall, weights: Array, zero_point: int) -> Array:
    """Returns the bias: some cores have it directly, others with the zero point's share added."""
    count = len(weights)
    if call.is_null(3):
        return call.vector(2, count)
    if not call.is_null(2):
        raise call.refuse("bias or kernel_sum, not both", "both")
    sums = call.vector(3, count).astype(np.int64) + zero_point * weights.astype(np.int64).sum(axis=1)
    if np.abs(sums).max(initial=0) > INT32_MAX:
        raise call.refuse("biases have 32 bits", int(np.abs(sums).max()))
    return sums.astype(np.int32)


def batch_matmul(call: ReadCall) -> None:
    """Reads a matrix product of two tensors."""
    a, b = call.int8(call.plain(0)), call.int8(call.plain(2))
    xs: dict[str, tuple[ReadTensor, Seen]] = {"a": (a, call.level(1, -1)), "b": (b, call.level(3, -1))}
    y = call.make_int8(call.contiguous_out_shape, call.level(4))
    call.record_op(BatchMatmul, y, xs, adj_x=False, adj_y=True, given=(call.multiplier(5, 6),))


def avg_pool2d(call: ReadCall) -> None:
    """Reads an average pool; the kernel ignores zero point and multiplier."""
    _pool(call, AvgPool2d, {})


def max_pool2d(call: ReadCall) -> None:
    """Reads a max pool."""
    if call.pair(4) != (1, 1) or call.flag(5) or call.level(6) != call.level(7):
        raise call.refuse("no dilation, no ceil mode, one zero point", call.integers(4))
    call.image(0).label.add_known_params(call.level(6))
    _pool(call, MaxPool2d, call.bounds(8, 9))


def _pool(call: ReadCall, make: Any, fields: dict[str, Any]) -> None:
    x, shape = call.image(0), call.out_image
    kernel, stride, before = call.pair(1), call.pair(2), call.pair(3)
    padding = sides(call, before, x.shape, shape, kernel, stride, (1, 1))
    y = call.make(shape, DType.INT8, x.label)
    geometry = {"kernel": kernel, "stride": stride, "padding": padding}
    call.reader.add(SameScaleStep(call.source, make, ("x",), (x,), y, {**geometry, **fields}))


def softmax(call: ReadCall) -> None:
    """Reads a softmax over the last axis."""
    x = call.int8(call.plain(0))
    m = call.multiplier(4, 5)
    if not x.shape or call.number(1) not in (-1, len(x.shape) - 1) or call.number(3) != OUTPUT.zero_point:
        raise call.refuse(
            "softmax is over the last axis, its zero point -128", (call.number(1), call.number(3))
        )
    if call.number(6) != smallest_difference(m):
        raise call.refuse(f"the smallest difference that counts is {smallest_difference(m)}", call.number(6))
    y = call.make(call.contiguous_out_shape, DType.INT8, SharedQuantParams(OUTPUT.scale, OUTPUT.zero_point))
    call.record_op(Softmax, y, {"x": (x, call.level(2))}, given=(m,))
