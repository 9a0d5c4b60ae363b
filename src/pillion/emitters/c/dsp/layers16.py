# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of layers with 16-bit operands and results."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import field_equals, fixed_point, is_within, short_circuit
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.layers16 import (
    IN_32_BITS,
    Layer,
    channels_16,
    has_one_filter,
    in_place,
    is_3x3,
    kernels_3x3,
    plane_bytes,
    plane_params,
    weight_rows,
)
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.linear import Linear

PIXELS = 5
"""The pixels that are computed together."""
MOST_ROWS = 3
"""The number of vectors up to which each is computed alone."""


def steps_of(op: Layer) -> int:
    """Returns the fours of inputs of a sum."""
    return -(-weight_rows(op).shape[1] // 4)


def fours(weights: Int8Array) -> Int32Array:
    """Returns weights [outputs, inputs] as [outputs, steps] words of four, in the order 0 2 1 3."""
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 4)))
    ordered = padded.reshape(len(weights), -1, 4)[:, :, [0, 2, 1, 3]]
    return np.ascontiguousarray(ordered).reshape(len(weights), -1).view(np.int32)


def upper_word_factors(op: Layer) -> Int32Array:
    """Returns the factor of each channel: a result is the upper word of a sum times its factor, rounded half up."""
    return channels_16(op).multipliers << 1


def in_lanes(op: Layer, lanes: int) -> Params:
    """Returns the stream of a layer: groups of some outputs, each of biases, weights and factors."""
    behind = -len(op.bias.constant) % lanes
    columns = np.asarray(op.bias.constant, np.int32), fours(weight_rows(op)), upper_word_factors(op)
    padded = [
        np.pad(c.reshape(len(c), -1), ((0, behind), (0, 0))).reshape(-1, lanes, c.size // len(c))
        for c in columns
    ]
    parts = [part.swapaxes(1, 2).reshape(len(part), -1) for part in padded]
    return {"stream": np.hstack(parts).astype(np.int32).reshape(-1), "steps": steps_of(op)}


def conv_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution."""
    return {"whole_rows": int(op.dilation[1] == 1), **in_lanes(op, 1)}


def rows_params(op: Linear) -> Params:
    """Returns the parameters of a fully connected layer as a convolution of a row of pixels."""
    ones = (
        "batch",
        "in_h",
        "out_h",
        "kernel_h",
        "kernel_w",
        "stride_h",
        "stride_w",
        "dilation_h",
        "dilation_w",
        "whole_rows",
    )
    sizes = {"in_w": op.rows, "out_w": op.rows, "in_c": op.in_features, "out_c": op.out_features}
    return {**dict.fromkeys(ones, 1), **sizes, "pad_top": 0, "pad_left": 0, **in_lanes(op, 1)}


def work(op: Conv2d | Linear) -> float:
    """Estimates the instructions of the sums and results of a convolution: five pixels and one channel at a time."""
    out_c, steps = len(op.bias.constant), steps_of(op)
    groups = -(-op.y.type.elements // (out_c * PIXELS))
    return groups * out_c * (28.0 + 3 * -(-steps // 8) + 15 * steps)


def linear_params(op: Layer) -> Params:
    """Returns the parameters of a fully connected layer, or of a convolution of one pixel."""
    out_features, in_features = weight_rows(op).shape
    rows = op.rows if isinstance(op, Linear) else 1
    return {"rows": rows, "in_features": in_features, "out_features": out_features, **in_lanes(op, 4)}


def one_pixel(op: Conv2d) -> tuple[Verdict, ...]:
    """Checks whether a convolution computes one pixel from the whole image."""
    is_one = op.y.shape[:3] == (1, 1, 1) and op.kernel == op.x.shape[1:3] and op.groups == 1
    return (Verdict("pixels", is_one, "one, from the whole image", str(op.y.shape[:3])),)


def few_rows(op: Linear) -> Verdict:
    """Checks whether a layer has so few vectors of inputs that they are computed one by one."""
    return is_within("rows", op.rows, most=MOST_ROWS)


def plane_of(op: DepthwiseConv2d) -> dict[str, int]:
    """Returns the sizes of a convolution by planes, whose rows have what fours of outputs read."""
    return plane_params(op, lambda width: 2 * (-(-width // 4) * 4 * op.stride[1] + 2), 1)


def scratch_of_planes(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of a plane, and four outputs for each row of them."""
    sizes = plane_of(op)
    return 8 * sizes["band"] + plane_bytes(op, sizes, 1)


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the depthwise kernel."""
    pairs = np.ascontiguousarray(kernels_3x3(op)[:, :, [0, 1, 1, 2]].astype(np.int16))
    columns = [np.asarray(op.bias.constant, np.int32), upper_word_factors(op)]
    numbers = np.column_stack([*columns, pairs.reshape(-1, 12).view(np.int32)])
    return {**plane_of(op), "numbers": numbers.astype(np.int32).reshape(-1)}


def any_depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the depthwise kernel for any window."""
    behind = (0, -op.out_channels % 4)
    columns = (np.pad(c, behind) for c in (np.asarray(op.bias.constant, np.int32), upper_word_factors(op)))
    numbers = np.hstack([column.reshape(-1, 4) for column in columns]).astype(np.int32)
    weights = np.pad(weight_rows(op), (behind, (0, 0))).reshape(-1, 4, weight_rows(op).shape[1])
    ordered = np.ascontiguousarray(weights.swapaxes(1, 2)).astype(np.int16)
    return {"weights": ordered.reshape(-1), "numbers": numbers.reshape(-1)}


WINDOWS: dict[str, Any] = {"scratch_bytes": lambda op: 8 * (PIXELS + 1) * steps_of(op), "work": work}
VECTOR: dict[str, Any] = {"scratch_bytes": lambda op: 8 * steps_of(op)}

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Conv2d,
        "linear_s16",
        linear_params,
        requires=(short_circuit(IN_32_BITS, one_pixel),),
        name="conv2d_pixel_16",
        **VECTOR,
    ),
    DSP.kernel(
        Conv2d,
        "conv2d_s16",
        conv_params,
        requires=(short_circuit(IN_32_BITS, field_equals("groups", 1)),),
        name="conv2d_16",
        **WINDOWS,
    ),
    DSP.kernel(
        DepthwiseConv2d,
        "depthwise_3x3_s16",
        depthwise_params,
        requires=(short_circuit(IN_32_BITS, is_3x3),),
        name="depthwise_3x3_16",
        call_cost=CallCost(100.0, channel=154.0),
        scratch_bytes=scratch_of_planes,
        in_place=lambda op: in_place(op, plane_of(op)["band"]),
    ),
    DSP.kernel(
        DepthwiseConv2d,
        "depthwise_any_s16",
        any_depthwise_params,
        requires=(short_circuit(IN_32_BITS, has_one_filter),),
        name="depthwise_any_16",
        overread_bytes=6,
    ),
    DSP.kernel(
        Linear,
        "linear_s16",
        linear_params,
        requires=(short_circuit(fixed_point, IN_32_BITS, few_rows),),
        name="linear_16",
        **VECTOR,
    ),
    DSP.kernel(
        Linear,
        "conv2d_s16",
        rows_params,
        requires=(short_circuit(fixed_point, IN_32_BITS),),
        name="linear_rows_16",
        **WINDOWS,
    ),
)
