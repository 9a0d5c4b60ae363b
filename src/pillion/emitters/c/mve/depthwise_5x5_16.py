# SPDX-License-Identifier: Apache-2.0
"""The Helium 5x5 depthwise convolution of 16 bits (kernels/mve/depthwise_5x5_s16_mve.c): layout, conditions and cost."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import is_within
from pillion.emitters.c.mve.depthwise_strips import UINT16_MAX
from pillion.emitters.c.mve.pack import kernel_has_sizes, pixel_bytes
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d

ROWS = 4
"""Output rows that are computed together."""
COLUMNS = 8
"""The columns of a vector."""
WORK = (70.0, 9.0, 4.0, 32.0, {1: 48.0, 2: 54.0})
"""Instructions, counted in the emulator: for a channel, copied rows, vectors of these, groups of output rows, and columns of
these groups by stride."""


def plane_size(op: DepthwiseConv2d) -> tuple[int, int]:
    """Returns the rows and columns of a padded channel."""
    (out_h, out_w), stride = op.y.shape[1:3], op.stride[0]
    return (out_h - 1) * stride + 5, (out_w - 1) * stride + COLUMNS


def _copied(op: DepthwiseConv2d) -> tuple[int, ...]:
    """Returns the rows and columns of the image that the windows see."""
    sizes = zip(op.x.shape[1:3], plane_size(op), op.padding[:2], strict=True)
    return tuple(min(size, room - before) for size, room, before in sizes)


def verdicts(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
    """Checks whether windows are 5x5, see the image, and have four rows of outputs."""
    return (
        kernel_has_sizes(op, "kernel", "5x5", (5, 5)),
        kernel_has_sizes(op, "stride", "1 or 2", (1, 1), (2, 2)),
        kernel_has_sizes(op, "dilation", "1", (1, 1)),
        is_within("rows", op.y.shape[1], least=ROWS),
        is_within("padding", min(_copied(op)), least=1),
        is_within("columns", (COLUMNS - 1) * pixel_bytes(op), most=UINT16_MAX, unit="bytes apart"),
    )


def plane_bytes(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes: a padded channel."""
    rows, columns = plane_size(op)
    return 2 * rows * columns


def _firsts(op: DepthwiseConv2d) -> list[int]:
    """Returns the first rows of the groups; the last one ends with the last row."""
    return [min(row, op.y.shape[1] - ROWS) for row in range(0, op.y.shape[1], ROWS)]


def layout_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters but for the numbers of channels."""
    stride, pixel, y_pixel = op.stride[0], pixel_bytes(op), 2 * op.out_channels
    plane_row, y_row = 2 * plane_size(op)[1], op.y.shape[2] * y_pixel
    words = [
        *(op.x.shape[2] * pixel, pixel, plane_row, *_copied(op)),
        op.padding[0] * plane_row + 2 * op.padding[1],
        *(stride, y_pixel, op.y.shape[2], len(_firsts(op))),
        *(row * y_row for row in range(ROWS)),
        *(offset for row in _firsts(op) for offset in (stride * row * plane_row, row * y_row)),
    ]
    return {
        "image_bytes": op.x.type.size_bytes // op.x.shape[0],
        "output_bytes": op.y.type.size_bytes // op.y.shape[0],
        "filters": op.depth_multiplier,
        "plane_bytes": plane_bytes(op),
        "layout": np.array(words, np.int32),
        "kernels": np.ascontiguousarray(op.weights_per_output).reshape(-1),
    }


def work(op: DepthwiseConv2d) -> float:
    """Estimates the instructions of the kernel."""
    channel, row, vector, group, column = WORK
    rows, columns = _copied(op)
    of_plane = op.in_channels * rows * (row + vector * -(-columns // COLUMNS))
    of_outputs = channel + len(_firsts(op)) * (group + column[op.stride[0]] * op.y.shape[2])
    return op.x.shape[0] * (of_plane + op.out_channels * of_outputs)
