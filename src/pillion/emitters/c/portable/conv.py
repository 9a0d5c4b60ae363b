# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of convolutions and fully connected layers, and the layout of their constants."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
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
    return numerics.wrap_to_32_bits(bias.astype(np.int64) - (in_zp - LOWEST) * sums).astype(np.int32)


def pack_weights(weights: Array, bias: Array, in_zp: int, groups: int = 1) -> Params:
    """Packs weights [channels, inputs] and bias for dot.h."""
    blocks = [pack_fours(part).reshape(-1) for part in np.split(weights, groups)]
    return {"weights": np.concatenate(blocks), "bias": bias_for_unsigned(bias, weights, in_zp)}


def window(op: Convolution | TransposeConv2d) -> Params:
    """Returns kernel, stride, dilation and padding of a convolution as parameters."""
    pairs = {"kernel": op.kernel, "stride": op.stride, "dilation": op.dilation}
    sizes: Params = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return {**sizes, "pad_top": op.padding[0], "pad_left": op.padding[1]}


def image_params(op: Convolution | TransposeConv2d) -> dict[str, int]:
    """Returns the sizes of operand and result of a convolution as parameters, without the result's channels."""
    batch, in_h, in_w, in_c = op.x.shape
    _, out_h, out_w, _ = op.y.shape
    return {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c, "out_h": out_h, "out_w": out_w}


def swap_height_and_width(params: Params) -> Params:
    """Swaps heights and widths in the parameters of a window."""
    opposite = {"_h": "_w", "_w": "_h", "_top": "_left", "_left": "_top"}
    suffix_of = {key: next((end for end in opposite if key.endswith(end)), "") for key in params}
    return {key: params[key.removesuffix(end) + opposite.get(end, "")] for key, end in suffix_of.items()}


# --- convolutions -----------------------------------------------------------------------------------------------------


def conv_params(op: Convolution, groups: int) -> Params:
    """Returns the parameters of a convolution."""
    return {
        **{"groups": groups, "pointwise": int(is_pointwise(op, groups))},
        **pack_weights(op.weights_per_output, op.bias.constant, op.x.zero_point, groups),
    }


def is_pointwise(op: Convolution, groups: int) -> bool:
    """Whether windows need no gathering: 1x1, without padding and groups, channels a multiple of four."""
    return op.kernel == (1, 1) and not any(op.padding) and groups == 1 and op.in_channels % FOUR == 0


def plain_1x1(op: Conv2d) -> Verdict:
    """Checks whether a convolution has windows of one pixel, stride 1 and no padding."""
    got = f"{op.kernel}, stride {op.stride}, padding {op.padding}"
    plain = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    return Verdict("window", plain, "1x1, stride 1, no padding", got)


def scratch_conv2d(op: Conv2d) -> int:
    """Returns the scratch bytes of a convolution: one gathered window, if it needs gathering."""
    return 0 if is_pointwise(op, op.groups) else window_bytes(op.weights_per_output.shape[1])


def window_bytes(inputs: int) -> int:
    """Returns the scratch bytes for a gathered window."""
    return -(-inputs // FOUR) * FOUR


def depthwise_routine(op: DepthwiseConv2d) -> str:
    """Returns the routine of a depthwise convolution; with a depth multiplier it is a grouped convolution."""
    return "depthwise_conv2d_s8" if op.depth_multiplier == 1 else "conv2d_s8"


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of a depthwise convolution."""
    if op.depth_multiplier != 1:
        return conv_params(op, op.in_channels)
    weights = np.ascontiguousarray(op.weights.constant).reshape(-1)
    return {"weights": weights, "bias": np.asarray(op.bias.constant, np.int32)}


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of a depthwise convolution: one gathered window if it runs as a grouped
    convolution."""
    if op.depth_multiplier == 1 or is_pointwise(op, op.in_channels):
        return 0
    return window_bytes(math.prod(op.kernel))


# --- linear -----------------------------------------------------------------------------------------------------------


def linear_params(op: Linear, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a fully connected layer in the graph's arithmetic."""
    packed = pack_weights(op.weights.constant, op.bias.constant, op.x.zero_point)
    return {**packed, **({"scale": op.ratios.copy()} if arithmetic is Arithmetic.TFLITE else {})}


def scratch_linear(op: Linear) -> int:
    """Returns the scratch bytes of a fully connected layer: one padded row of inputs, if they are no multiple of
    four."""
    return window_bytes(op.in_features) if op.in_features % FOUR else 0


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        Conv2d,
        "conv2d_s8",
        lambda op: conv_params(op, op.groups),
        requires=(LAYER,),
        scratch_bytes=scratch_conv2d,
    ),
    PORTABLE.kernel(
        DepthwiseConv2d,
        depthwise_routine,
        depthwise_params,
        requires=(LAYER,),
        scratch_bytes=scratch_depthwise,
    ),
    PORTABLE.kernel(
        Linear,
        lambda op, arithmetic: "linear_tflite_s8" if arithmetic is Arithmetic.TFLITE else "linear_s8",
        linear_params,
        requires=(LAYER,),
        scratch_bytes=scratch_linear,
    ),
)
