# SPDX-License-Identifier: Apache-2.0
"""The depthwise convolution of cores without SIMD: four outputs of a row, from a ring of widened rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import OutputChannels, channels_of
from pillion.emitters.c.channel_scaling import scale_channels
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import field_equals
from pillion.emitters.c.kernel_library import SCALAR
from pillion.emitters.c.portable.conv import image_params, swap_height_and_width, window
from pillion.emitters.c.scalar.conv import SUMS, channel_scales
from pillion.ir import numerics
from pillion.ir.types import Value
from pillion.ops.conv import DepthwiseConv2d

OUTPUTS = 4
POINTER_BYTES = 8
"""The size of a pointer on 64-bit hosts, on which the kernel is tested."""


def outputs_computed(size: int) -> int:
    """Returns the outputs that are computed for a row: `size` rounded up to fours."""
    return -(-size // OUTPUTS) * OUTPUTS


def is_along_height(op: DepthwiseConv2d) -> bool:
    """Whether groups of four suit the height better than the width; a row costs about one output of overhead."""
    h, w = op.y.shape[1:3]
    return (outputs_computed(h) + 1) * w < (outputs_computed(w) + 1) * h


def byte_step_params(op: DepthwiseConv2d, along_height: bool) -> Params:
    """Returns the byte steps from element to element and from row to row, of image and result."""
    steps: dict[str, int] = {}
    for name, value in (("x", op.x), ("y", op.y)):
        _, _, w, c = value.shape
        steps |= {
            f"{name}_step": w * c if along_height else c,
            f"{name}_row_step": c if along_height else w * c,
        }
    return steps


def pack(channels: OutputChannels, op: DepthwiseConv2d, along_height: bool) -> Params:
    """Packs weights, and the four constants of each channel."""
    if along_height:
        weights = channels.weights.reshape(-1, *op.kernel).swapaxes(1, 2)
        channels = replace(channels, weights=weights.reshape(channels.weights.shape))
    scaled = scale_channels(channels)
    biases = numerics.wrap_to_32_bits(scaled.sums).astype(np.int32)
    numbers = np.concatenate([biases[:, None], channel_scales(scaled)], axis=1)
    return {"weights": scaled.weights.reshape(-1).astype(np.int8), "constants": numbers.reshape(-1)}


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the kernel; its rows run along the height where groups of four suit that better."""
    along_height = is_along_height(op)
    sizes = {name: image_params(op)[name] for name in ("in_h", "in_w", "out_h", "out_w")}
    geometry: Params = {**sizes, **window(op)}
    return {
        **(swap_height_and_width(geometry) if along_height else geometry),
        **byte_step_params(op, along_height),
        **pack(channels_of(op), op, along_height),
    }


def ring_size(op: DepthwiseConv2d) -> tuple[int, int]:
    """Returns the rows of the ring, and the elements of each."""
    axes = list(zip(op.y.shape[1:3], op.stride, op.kernel, op.dilation, strict=True))
    rows, columns = axes[::-1] if is_along_height(op) else axes
    out, stride, kernel, dilation = columns
    return (rows[2] - 1) * rows[3] + 1, (max(out, OUTPUTS) - 1) * stride + (kernel - 1) * dilation + 1


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes: a pointer for each row of the window, and the ring."""
    slots, width = ring_size(op)
    return POINTER_BYTES * op.kernel[is_along_height(op)] + 4 * slots * width


def in_place_depthwise(op: DepthwiseConv2d) -> tuple[Value, ...]:
    """Returns the image if its rows are read before the result overwrites them: row by row for equal shapes,
    otherwise if the shorter rows of the result stay behind the reads."""
    if op.x.shape == op.y.shape:
        before = op.padding[1 if is_along_height(op) else 0]
        return (op.x,) if before < ring_size(op)[0] else ()
    if op.x.shape[0] != 1 or op.depth_multiplier != 1 or is_along_height(op):
        return ()
    (_, in_h, in_w, _), (_, out_h, out_w, _) = op.x.shape, op.y.shape
    read = [min(row * op.stride[0] + ring_size(op)[0] - op.padding[0], in_h) for row in range(out_h)]
    safe = all(rows == in_h or (i + 1) * out_w <= rows * in_w for i, rows in enumerate(read))
    return (op.x,) if safe and out_h * out_w <= in_h * in_w else ()


KERNELS: tuple[Kernel, ...] = (
    SCALAR.kernel(
        DepthwiseConv2d,
        "depthwise_conv2d_s8",
        depthwise_params,
        requires=(field_equals("depth_multiplier", 1), SUMS),
        scratch_bytes=scratch_depthwise,
        in_place=in_place_depthwise,
        call_cost=CallCost(100.0, channel=150.0, reread=4.0),
    ),
)
