# SPDX-License-Identifier: Apache-2.0
"""The host kernels of convolution, depthwise convolution and fully connected layers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER, field_equals, short_circuit
from pillion.emitters.c.kernel_library import HOST
from pillion.emitters.c.portable.conv import bias_for_unsigned
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear

FOUR = 4
"""Inputs whose products one instruction adds."""
BLOCK = 64
"""Channels whose weights are packed together (PILLION_BLOCK_CHANNELS)."""
SIXTEEN = 16
STRIP_BYTES = 1 << 16
"""The approximate size of an image strip, which stays in the second-level cache while all weights pass."""
MOST_RIGHT = 31
"""The largest shift of 32 bits."""
LARGEST_SUM = 1 << 30
"""From this magnitude on, twice a sum overflows 32 bits."""
SLACK = 64
"""Bytes behind the copied rows that a vector load may reach."""
ZIPPED = 256
"""The size of four rows of one column for a block of channels."""

# --- scales -----------------------------------------------------------------------------------------------------------


def right_shifts(op: Layer) -> NDArray[np.int32]:
    """Returns the right shift of each channel; 1 for a multiplier of 0, where any shift is correct."""
    mantissas, shifts = op.multipliers
    return np.where(mantissas == 0, 1, -shifts).astype(np.int32)


def fixed_point(op: Layer, arithmetic: Arithmetic) -> Iterator[Verdict]:
    """Checks whether sums are rescaled as in the kernels: doubled, multiplied in 64 bits and shifted right."""
    is_real = isinstance(op, Linear) and arithmetic is Arithmetic.TFLITE
    rights, bounds = right_shifts(op), channels_of(op).bounds()
    least, most = int(rights.min(initial=MOST_RIGHT)), int(rights.max(initial=1))
    largest = max(int(np.abs(end).max(initial=0)) for end in bounds)
    in_range = least >= 1 and most <= MOST_RIGHT
    yield Verdict("multiplier", not is_real, "fixed point", "a double" if is_real else "fixed point")
    yield Verdict("right_shift", in_range, f"1 to {MOST_RIGHT}", f"{least} to {most}")
    yield Verdict("sums", largest < LARGEST_SUM, f"below {LARGEST_SUM}", str(largest))


SCALES = short_circuit(LAYER, fixed_point)


def pad_to_multiple(values: Array, count: int) -> Array:
    """Returns an array padded with zeros to a multiple of `count`."""
    return np.pad(values, (0, -len(values) % count))


def sums_and_scales(op: Layer, weights: Array, whole: int) -> Params:
    """Returns the biases and scales of all channels as parameters."""
    bias = bias_for_unsigned(op.bias.constant, weights, op.x.zero_point)
    rights = right_shifts(op)
    rectified = int(op.low >= op.y.zero_point and rights.min(initial=2) >= 2)
    arrays = {"bias": bias, "right": rights - rectified, "half": 1 << (rights - rectified - 1)}
    return {
        "rectified": rectified,
        "multiplier": np.append(pad_to_multiple(op.multipliers[0], whole), np.int32(0)),
        **{key: pad_to_multiple(array.astype(np.int32), whole) for key, array in arrays.items()},
    }


# --- convolution ------------------------------------------------------------------------------------------------------


def pack_blocks(weights: Array) -> NDArray[np.int8]:
    """Packs weights [channels, kernel rows, inputs] as [kernel rows, inputs / 4, channels, 4], block of channels
    by block."""
    channels, rows, inputs = weights.shape
    padded = np.pad(weights, ((0, -channels % SIXTEEN), (0, 0), (0, -inputs % FOUR))).astype(np.int8)
    blocks = [padded[at : at + BLOCK] for at in range(0, len(padded), BLOCK)]
    packed = [b.reshape(len(b), rows, -1, FOUR).transpose(1, 2, 0, 3).reshape(-1) for b in blocks]
    return np.concatenate(packed)


def contiguous_rows(op: Conv2d) -> Verdict:
    """Checks whether kernel rows are contiguous."""
    is_run = op.kernel[1] == 1 or op.dilation[1] == 1
    return Verdict("dilation", is_run, "none along the rows", str(op.dilation))


def strip_rows(out_h: int, stride_h: int, reach: int, row_bytes: int) -> int:
    """Returns the number of result rows for each strip; `reach` is the number of rows in a window."""
    rows = max(STRIP_BYTES // max(row_bytes, 1), reach)
    return max(1, min(out_h, (rows - reach) // stride_h + 1))


def image_params(op: Conv2d) -> Params:
    """Returns image and window of a convolution. A pointwise one has an image of one column."""
    batch, in_h, in_w, in_c = op.x.shape
    _, out_h, out_w, out_c = op.y.shape
    if (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0)):
        return pointwise_image_params(batch * in_h * in_w, in_c, out_c)
    columns = (out_w - 1) * op.stride[1] + (op.kernel[1] - 1) * op.dilation[1] + 1
    row_bytes, reach = columns * in_c, (op.kernel[0] - 1) * op.dilation[0] + 1
    return {
        **{"kernel_h": op.kernel[0], "stride_h": op.stride[0], "dilation_h": op.dilation[0]},
        **{"row_bytes": row_bytes, "column_step": op.stride[1] * in_c},
        **{"kernel_row_step": op.dilation[0] * row_bytes, "fours": -(-op.kernel[1] * in_c // FOUR)},
        "strip_rows": strip_rows(out_h, op.stride[0], reach, row_bytes),
    }


def pointwise_image_params(pixels: int, in_c: int, out_c: int) -> Params:
    """Returns the parameters of an image of one column, for pointwise windows."""
    return {
        **{"batch": 1, "in_h": pixels, "in_w": 1, "in_c": in_c, "out_h": pixels, "out_w": 1, "out_c": out_c},
        **{"kernel_h": 1, "stride_h": 1, "dilation_h": 1, "pad_top": 0, "pad_left": 0},
        **{"row_bytes": in_c, "column_step": in_c, "kernel_row_step": 0, "fours": -(-in_c // FOUR)},
        "strip_rows": strip_rows(pixels, 1, 1, in_c),
    }


def image_strip_bytes(place: Params) -> int:
    """Returns the size of a strip of the image."""
    number = {key: int(value) for key, value in place.items() if not isinstance(value, np.ndarray)}
    reach = (number["kernel_h"] - 1) * number["dilation_h"] + 1
    return ((number["strip_rows"] - 1) * number["stride_h"] + reach) * number["row_bytes"] + SLACK


def conv_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution."""
    weights = op.weights_per_output
    packed = pack_blocks(weights.reshape(len(weights), op.kernel[0], -1))
    return {**image_params(op), "weights": packed, **sums_and_scales(op, weights, SIXTEEN)}


# --- linear -----------------------------------------------------------------------------------------------------------


def linear_image_params(op: Linear) -> Params:
    """Returns the image and the window of a fully connected layer, a convolution of one column of pixels."""
    return pointwise_image_params(op.rows, op.in_features, op.out_features)


def linear_params(op: Linear) -> Params:
    """Returns the parameters of a fully connected layer."""
    weights = op.weights.constant
    packed = pack_blocks(weights[:, None])
    return {**linear_image_params(op), "weights": packed, **sums_and_scales(op, weights, SIXTEEN)}


# --- depthwise --------------------------------------------------------------------------------------------------------


def pack_columns(weights: Array) -> NDArray[np.int8]:
    """Packs weights [kernel rows, kernel columns, channels] as [kernel columns, kernel rows / 4, channels, 4]."""
    rows, columns, channels = weights.shape
    padded = np.pad(weights, ((0, -rows % FOUR), (0, 0), (0, -channels % BLOCK))).astype(np.int8)
    fours = padded.reshape(-1, FOUR, columns, padded.shape[2])
    return np.ascontiguousarray(fours.transpose(2, 0, 3, 1)).reshape(-1)


def interleaved_column_count(op: DepthwiseConv2d) -> int:
    """Returns the number of columns of the padded image that windows read."""
    return (op.y.shape[2] - 1) * op.stride[1] + (op.kernel[1] - 1) * op.dilation[1] + 1


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of a depthwise convolution."""
    return {
        **{"columns": interleaved_column_count(op), "fours": -(-op.kernel[0] // FOUR)},
        "weights": pack_columns(op.weights.constant[0]),
        **sums_and_scales(op, op.weights_per_output, BLOCK),
    }


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of a depthwise convolution: the interleaved columns of a block of channels."""
    return interleaved_column_count(op) * -(-op.kernel[0] // FOUR) * ZIPPED


KERNELS: tuple[Kernel, ...] = (
    HOST.kernel(
        Conv2d,
        "conv2d_s8",
        conv_params,
        requires=(field_equals("groups", 1), contiguous_rows, SCALES),
        scratch_bytes=lambda op: image_strip_bytes(image_params(op)),
    ),
    HOST.kernel(
        DepthwiseConv2d,
        "depthwise_conv2d_s8",
        depthwise_params,
        requires=(field_equals("depth_multiplier", 1), SCALES),
        scratch_bytes=scratch_depthwise,
    ),
    HOST.kernel(
        Linear,
        "conv2d_s8",
        linear_params,
        requires=(SCALES,),
        scratch_bytes=lambda op: image_strip_bytes(linear_image_params(op)),
    ),
)
