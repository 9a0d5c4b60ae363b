# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of convolutions and of matrix products with constant weights, and how their constants are packed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.conditions import constants, int8
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d
from pillion.ops.linear import Linear

FOUR = 4
"""Weights lie in fours along the inputs (kernels/include/pillion/dot.h)."""
LOWEST = -128
"""Inputs are counted from here, so that they are unsigned."""


def in_fours(weights: Array) -> NDArray[np.int8]:
    """Lays weights [channels, inputs] as [inputs / 4, channels, 4]; inputs that are missing have weight 0."""
    channels, inputs = weights.shape
    padded = np.pad(weights.astype(np.int8), ((0, 0), (0, -inputs % FOUR)))
    return padded.reshape(channels, -1, FOUR).transpose(1, 0, 2)


def bias_for_unsigned(bias: Array, weights: Array, in_zp: int) -> NDArray[np.int32]:
    """Gives the bias for inputs that are counted from the lowest: sums wrap, so may it."""
    sums = numerics.row_sums(weights)
    return numerics.wrap32(bias.astype(np.int64) - (in_zp - LOWEST) * sums).astype(np.int32)


def packed(weights: Array, bias: Array, in_zp: int, groups: int = 1) -> Params:
    """Packs weights [channels, inputs] and bias as dot.h wants them."""
    blocks = [in_fours(part).reshape(-1) for part in np.split(weights, groups)]
    return {"weights": np.concatenate(blocks), "bias": bias_for_unsigned(bias, weights, in_zp)}


def scaling(op: Convolution | Linear) -> Params:
    """Gives the multipliers and shifts of a convolution or fully connected layer as parameters."""
    mantissa, shift = op.multipliers
    return {"multiplier": mantissa, "shift": shift}


def window(op: Convolution) -> Params:
    """Gives kernel, stride, dilation and padding of a convolution as parameters."""
    pairs = {"kernel": op.kernel, "stride": op.stride, "dilation": op.dilation}
    sizes: Params = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return {**sizes, "pad_top": op.padding[0], "pad_left": op.padding[1]}


def levels(op: Convolution | Linear) -> Params:
    """Gives the zero point of the result and its bounds as parameters."""
    return {"out_zp": op.y.zero_point, "low": op.low, "high": op.high}


# --- conv2d -----------------------------------------------------------------------------------------------------------


def conv2d(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a convolution."""
    return (convolution(op, op.weights_per_output, op.groups),)


def convolution(op: Convolution, weights: Array, groups: int) -> Call:
    """Gives the call of a convolution with weights [channels, inputs]."""
    batch, in_h, in_w, in_c = op.x.shape
    _, out_h, out_w, out_c = op.y.shape
    params: Params = {
        **{
            "batch": batch,
            "in_h": in_h,
            "in_w": in_w,
            "in_c": in_c,
            "out_h": out_h,
            "out_w": out_w,
            "out_c": out_c,
        },
        **window(op),
        "groups": groups,
        "pointwise": int(is_pointwise(op, groups)),
        "in_zp": op.x.zero_point,
        **levels(op),
        **packed(weights, op.bias.constant, op.x.zero_point, groups),
        **scaling(op),
    }
    return Call(PORTABLE.routine("conv2d_s8"), params, (op.x,), op.y)


def is_pointwise(op: Convolution, groups: int) -> bool:
    """Whether windows can be read where they are: single pixels inside the image, in whole fours."""
    return op.kernel == (1, 1) and not any(op.padding) and groups == 1 and op.in_channels % FOUR == 0


def conv2d_scratch(op: Conv2d) -> int:
    """Gives the scratch of a convolution: a gathered window, where the window is not one pixel."""
    return 0 if is_pointwise(op, op.groups) else window_bytes(op.weights_per_output.shape[1])


def window_bytes(inputs: int) -> int:
    """Gives the scratch for a window of inputs that are copied next to each other."""
    return -(-inputs // FOUR) * FOUR


def judge_convolution(op: Convolution, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a convolution, and whether weights and bias are constants."""
    return (*int8(x=op.x, y=op.y, weights=op.weights), *constants(weights=op.weights, bias=op.bias))


# --- depthwise --------------------------------------------------------------------------------------------------------


def depthwise(op: DepthwiseConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a depthwise convolution; with more than one filter for a channel it is a convolution in groups."""
    if op.depth_multiplier != 1:
        return (convolution(op, op.weights_per_output, op.in_channels),)
    batch, in_h, in_w, channels = op.x.shape
    _, out_h, out_w, _ = op.y.shape
    params: Params = {
        **{"batch": batch, "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w, "channels": channels},
        **window(op),
        "in_zp": op.x.zero_point,
        **levels(op),
        "weights": np.ascontiguousarray(op.weights.constant).reshape(-1),
        "bias": np.asarray(op.bias.constant, np.int32),
        **scaling(op),
    }
    return (Call(PORTABLE.routine("depthwise_conv2d_s8"), params, (op.x,), op.y),)


def depthwise_scratch(op: DepthwiseConv2d) -> int:
    """Gives the scratch of a depthwise convolution: a gathered window, where it runs as a convolution in groups."""
    if op.depth_multiplier == 1 or is_pointwise(op, op.in_channels):
        return 0
    return window_bytes(math.prod(op.kernel))


# --- linear -----------------------------------------------------------------------------------------------------------


def linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a fully connected layer, in the arithmetic of the unit that runs it."""
    sizes: Params = {"rows": op.rows, "in_features": op.in_features, "out_features": op.out_features}
    shared: Params = {**sizes, **levels(op), **packed(op.weights.constant, op.bias.constant, op.x.zero_point)}
    if arithmetic is Arithmetic.TFLITE:
        return (
            Call(PORTABLE.routine("linear_tflite_s8"), {**shared, "scale": op.ratios.copy()}, (op.x,), op.y),
        )
    return (Call(PORTABLE.routine("linear_s8"), {**shared, **scaling(op)}, (op.x,), op.y),)


def linear_scratch(op: Linear) -> int:
    """Gives the scratch of a fully connected layer: a row of inputs, where these do not come in fours."""
    return window_bytes(op.in_features) if op.in_features % FOUR else 0


def judge_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a fully connected layer, and whether weights and bias are constants."""
    return (*int8(x=op.x, y=op.y, weights=op.weights), *constants(weights=op.weights, bias=op.bias))


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(Conv2d, conv2d, judge_convolution, scratch_bytes=conv2d_scratch),
    PORTABLE.row(DepthwiseConv2d, depthwise, judge_convolution, scratch_bytes=depthwise_scratch),
    PORTABLE.row(Linear, linear, judge_linear, scratch_bytes=linear_scratch),
)
