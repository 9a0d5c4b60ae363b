# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of convolutions and fully connected layers, and the layout of their constants."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import layer_operands
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d
from pillion.ops.linear import Linear
from pillion.ops.transpose_conv import TransposeConv2d

FOUR = 4
"""Weights are packed in fours along the inputs (kernels/include/pillion/dot.h)."""
LOWEST = -128
"""The offset that makes int8 inputs unsigned."""


def pack_fours(weights: Array) -> NDArray[np.int8]:
    """Packs weights [channels, inputs] as [inputs / 4, channels, 4], padded with zeros."""
    channels, inputs = weights.shape
    padded = np.pad(weights.astype(np.int8), ((0, 0), (0, -inputs % FOUR)))
    return padded.reshape(channels, -1, FOUR).transpose(1, 0, 2)


def bias_for_unsigned(bias: Array, weights: Array, in_zp: int) -> NDArray[np.int32]:
    """Returns the bias for unsigned inputs x + 128, modulo 2^32 as the sums are."""
    sums = numerics.row_sums(weights)
    return numerics.wrap32(bias.astype(np.int64) - (in_zp - LOWEST) * sums).astype(np.int32)


def pack_weights(weights: Array, bias: Array, in_zp: int, groups: int = 1) -> Params:
    """Packs weights [channels, inputs] and bias for dot.h."""
    blocks = [pack_fours(part).reshape(-1) for part in np.split(weights, groups)]
    return {"weights": np.concatenate(blocks), "bias": bias_for_unsigned(bias, weights, in_zp)}


def scaling(op: Convolution | Linear | TransposeConv2d) -> Params:
    """Returns the multipliers and shifts of a layer as parameters."""
    mantissa, shift = op.multipliers
    return {"multiplier": mantissa, "shift": shift}


def window(op: Convolution | TransposeConv2d) -> Params:
    """Returns kernel, stride, dilation and padding of a convolution as parameters."""
    pairs = {"kernel": op.kernel, "stride": op.stride, "dilation": op.dilation}
    sizes: Params = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return {**sizes, "pad_top": op.padding[0], "pad_left": op.padding[1]}


def image(op: Convolution | TransposeConv2d) -> dict[str, int]:
    """Returns the sizes of operand and result of a convolution as parameters, without the result's channels."""
    batch, in_h, in_w, in_c = op.x.shape
    _, out_h, out_w, _ = op.y.shape
    return {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c, "out_h": out_h, "out_w": out_w}


def swapped(params: Params) -> Params:
    """Swaps heights and widths in the parameters of a window."""
    other = {"_h": "_w", "_w": "_h", "_top": "_left", "_left": "_top"}
    ends = {key: next((end for end in other if key.endswith(end)), "") for key in params}
    return {key: params[key.removesuffix(end) + other.get(end, "")] for key, end in ends.items()}


def result_bounds(op: Convolution | Linear | TransposeConv2d) -> Params:
    """Returns the zero point and the bounds of the result as parameters."""
    return {"out_zp": op.y.zero_point, "low": op.low, "high": op.high}


# --- conv2d -----------------------------------------------------------------------------------------------------------


def calls_conv2d(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a convolution."""
    return (conv_call(op, op.weights_per_output, op.groups),)


def conv_call(op: Convolution, weights: Array, groups: int) -> Call:
    """Returns the call of a convolution with weights [channels, inputs]."""
    params: Params = {
        **image(op),
        "out_c": op.y.shape[-1],
        **window(op),
        "groups": groups,
        "pointwise": int(is_pointwise(op, groups)),
        "in_zp": op.x.zero_point,
        **result_bounds(op),
        **pack_weights(weights, op.bias.constant, op.x.zero_point, groups),
        **scaling(op),
    }
    return Call(PORTABLE.routine("conv2d_s8"), params, (op.x,), op.y)


def is_pointwise(op: Convolution, groups: int) -> bool:
    """Whether windows need no gathering: 1x1, without padding and groups, channels a multiple of four."""
    return op.kernel == (1, 1) and not any(op.padding) and groups == 1 and op.in_channels % FOUR == 0


def scratch_conv2d(op: Conv2d) -> int:
    """Returns the scratch bytes of a convolution: one gathered window, if it needs gathering."""
    return 0 if is_pointwise(op, op.groups) else window_bytes(op.weights_per_output.shape[1])


def window_bytes(inputs: int) -> int:
    """Returns the scratch bytes for a gathered window."""
    return -(-inputs // FOUR) * FOUR


# --- depthwise --------------------------------------------------------------------------------------------------------


def calls_depthwise(op: DepthwiseConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a depthwise convolution; with a depth multiplier it is a grouped convolution."""
    if op.depth_multiplier != 1:
        return (conv_call(op, op.weights_per_output, op.in_channels),)
    batch, in_h, in_w, channels = op.x.shape
    _, out_h, out_w, _ = op.y.shape
    params: Params = {
        **{"batch": batch, "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w, "channels": channels},
        **window(op),
        "in_zp": op.x.zero_point,
        **result_bounds(op),
        "weights": np.ascontiguousarray(op.weights.constant).reshape(-1),
        "bias": np.asarray(op.bias.constant, np.int32),
        **scaling(op),
    }
    return (Call(PORTABLE.routine("depthwise_conv2d_s8"), params, (op.x,), op.y),)


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of a depthwise convolution: one gathered window if it runs as a grouped
    convolution."""
    if op.depth_multiplier == 1 or is_pointwise(op, op.in_channels):
        return 0
    return window_bytes(math.prod(op.kernel))


# --- linear -----------------------------------------------------------------------------------------------------------


def calls_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a fully connected layer in the graph's arithmetic."""
    sizes: Params = {"rows": op.rows, "in_features": op.in_features, "out_features": op.out_features}
    shared: Params = {
        **sizes,
        **result_bounds(op),
        **pack_weights(op.weights.constant, op.bias.constant, op.x.zero_point),
    }
    if arithmetic is Arithmetic.TFLITE:
        return (
            Call(PORTABLE.routine("linear_tflite_s8"), {**shared, "scale": op.ratios.copy()}, (op.x,), op.y),
        )
    return (Call(PORTABLE.routine("linear_s8"), {**shared, **scaling(op)}, (op.x,), op.y),)


def scratch_linear(op: Linear) -> int:
    """Returns the scratch bytes of a fully connected layer: one padded row of inputs, if they are no multiple of
    four."""
    return window_bytes(op.in_features) if op.in_features % FOUR else 0


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Conv2d, calls_conv2d, layer_operands, scratch_bytes=scratch_conv2d),
    PORTABLE.kernel(DepthwiseConv2d, calls_depthwise, layer_operands, scratch_bytes=scratch_depthwise),
    PORTABLE.kernel(Linear, calls_linear, layer_operands, scratch_bytes=scratch_linear),
)
