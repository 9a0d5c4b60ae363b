# SPDX-License-Identifier: Apache-2.0
"""The depthwise convolution of cores without SIMD: four outputs of a row, from a ring of widened rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Channels, channels_of
from pillion.emitters.c.channel_scaling import scale_channels
from pillion.emitters.c.kernel import Call, CallCost, Kernel, Params
from pillion.emitters.c.kernel_library import SCALAR
from pillion.emitters.c.portable.conv import swapped, window
from pillion.emitters.c.scalar.conv import channel_scales, check_sums
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d

OUTPUTS = 4
POINTER_BYTES = 8
"""The size of a pointer on 64-bit hosts, on which the kernel is tested."""

DEPTHWISE = SCALAR.routine("depthwise_conv2d_s8")


def check_depthwise(op: DepthwiseConv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the depth multiplier is 1, and whether the kernel's sums are exact."""
    got = op.depth_multiplier
    return (Verdict("depth_multiplier", got == 1, "1", str(got)), *check_sums(op))


def outputs_computed(size: int) -> int:
    """Returns the outputs that are computed for a row: `size` rounded up to fours."""
    return -(-size // OUTPUTS) * OUTPUTS


def is_along_height(op: DepthwiseConv2d) -> bool:
    """Whether groups of four suit the height better than the width; a row costs about one output of overhead."""
    h, w = op.y.shape[1:3]
    return (outputs_computed(h) + 1) * w < (outputs_computed(w) + 1) * h


def steps(op: DepthwiseConv2d, along_height: bool) -> Params:
    """Returns the byte steps from element to element and from row to row, of image and result."""
    found: dict[str, int] = {}
    for name, value in (("x", op.x), ("y", op.y)):
        _, _, w, c = value.shape
        found |= {
            f"{name}_step": w * c if along_height else c,
            f"{name}_row_step": c if along_height else w * c,
        }
    return found


def pack(channels: Channels, op: DepthwiseConv2d, along_height: bool) -> Params:
    """Packs weights, and the four constants of each channel."""
    if along_height:
        weights = channels.weights.reshape(-1, *op.kernel).swapaxes(1, 2)
        channels = replace(channels, weights=weights.reshape(channels.weights.shape))
    scaled = scale_channels(channels)
    biases = numerics.wrap32(scaled.sums).astype(np.int32)
    numbers = np.concatenate([biases[:, None], channel_scales(scaled)], axis=1)
    return {"weights": scaled.weights.reshape(-1).astype(np.int8), "constants": numbers.reshape(-1)}


def calls_depthwise(op: DepthwiseConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the depthwise kernel; its rows run along the height where groups of four suit that
    better."""
    along_height = is_along_height(op)
    batch, in_h, in_w, channels = op.x.shape
    sizes = {"in_h": in_h, "in_w": in_w, "out_h": op.y.shape[1], "out_w": op.y.shape[2]}
    place: Params = {**sizes, **window(op)}
    params: Params = {
        **{"batch": batch, "channels": channels, "in_zp": op.x.zero_point, "low": op.low, "high": op.high},
        **(swapped(place) if along_height else place),
        **steps(op, along_height),
        **pack(channels_of(op), op, along_height),
    }
    return (Call(DEPTHWISE, params, (op.x,), op.y),)


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
        calls_depthwise,
        check_depthwise,
        scratch_bytes=scratch_depthwise,
        in_place=in_place_depthwise,
        call_cost=CallCost(100.0, channel=150.0, reread=4.0),
    ),
)
