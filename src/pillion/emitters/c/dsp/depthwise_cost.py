# SPDX-License-Identifier: Apache-2.0
"""The plane of the DSP depthwise kernels, and their estimated instructions, fitted to counts in the emulator.

For 340 layers of 1 to 13 rows, the error is at most 3 %."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.ops.conv import DepthwiseConv2d

CALL, FILLED, CLAMPED, RECTIFIED = 353.0, 3.0, 2.0, -1.2
"""Instructions for each call, each element of the plane, and each result that is clamped; of each
result whose negative sum does not matter."""
COPIED_ROW, COPIED = 7.2, 2.19
"""Instructions for each row and element that is copied into the plane of a channel."""
CHANNEL_WORK = {
    "depthwise_3x3": (98.0, 16.1, 60.4, 32.9),
    "depthwise_3x3_stride2": (95.0, 20.4, 62.5, 31.5),
    "depthwise_5x5": (165.0, 15.1, 108.0, 64.0),
    "depthwise_5x5_stride2": (164.0, 16.3, 112.4, 62.3),
}
"""Instructions by kernel: for a channel, its rows of outputs, and their fours and remaining pairs."""
ANY_CHANNEL, ANY_COPIED_ROW, ANY_COPIED, ANY_ROW, ANY_RESULT = 58.0, 13.0, 2.0, 21.7, 14.1
ANY_WINDOW, ANY_KERNEL_ROW, ANY_TAP = 46.0, 16.0, 12.0
"""Instructions of the kernel of any window: four outputs or one share the loop over the kernel."""


def outputs_computed(width: int) -> int:
    """Returns the outputs that the kernel computes for a row: groups of four, then two or four more."""
    return width // 4 * 4 + (0, 2, 2, 4)[width % 4]


def is_transposed(op: DepthwiseConv2d) -> bool:
    """Whether groups of four fit the height better than the width; a row costs about one output of overhead."""
    h, w = op.y.shape[1:3]
    return (outputs_computed(h) + 1) * w < (outputs_computed(w) + 1) * h


@dataclass(frozen=True)
class Plane:
    """The padded image of one channel, with rows and columns swapped if groups of four fit the height better."""

    rows: int
    columns: int
    copied_rows: int
    copied_columns: int
    output_rows: int
    output_columns: int
    kernel_rows: int


def plane_of(op: DepthwiseConv2d) -> Plane:
    """Returns the plane of a depthwise convolution."""
    axes = list(
        zip(op.x.shape[1:3], op.y.shape[1:3], op.stride, op.kernel, op.dilation, op.padding[:2], strict=True)
    )
    rows, columns = axes[::-1] if is_transposed(op) else axes
    height = (rows[1] - 1) * rows[2] + (rows[3] - 1) * rows[4] + 1
    width = (outputs_computed(columns[1]) - 1) * columns[2] + (columns[3] - 1) * columns[4] + 2 & ~1
    copied = (min(rows[0], height - rows[5]), min(columns[0], width - columns[5]))
    return Plane(height, width, max(copied[0], 0), max(copied[1], 0), rows[1], columns[1], rows[3])


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of the depthwise kernels: the plane of one channel."""
    plane = plane_of(op)
    return 2 * plane.rows * plane.columns


def depthwise_work(op: DepthwiseConv2d, name: str) -> float:
    """Estimates the instructions of a depthwise kernel."""
    plane, results = plane_of(op), op.y.type.elements
    channels = op.x.shape[0] * op.out_channels
    elements = plane.copied_rows * plane.copied_columns
    known = (
        CALL + FILLED * plane.rows * plane.columns + CLAMPED * results * ((op.low, op.high) != (-128, 127))
    )
    if name in CHANNEL_WORK:
        channel, row, four, pair = CHANNEL_WORK[name]
        fours, pairs = divmod(outputs_computed(plane.output_columns), 4)
        of_rows = plane.output_rows * (row + four * fours + pair * (pairs > 0))
        of_copy = (COPIED_ROW * plane.copied_rows + COPIED * elements) / op.depth_multiplier
        rectified = RECTIFIED * results * (op.low >= op.y.zero_point)
        return known + rectified + channels * (channel + of_copy + of_rows)
    windows = plane.output_rows * (plane.output_columns // 4 + plane.output_columns % 4)
    taps = op.kernel[0] * op.kernel[1]
    of_windows = windows * (ANY_WINDOW + ANY_KERNEL_ROW * plane.kernel_rows + ANY_TAP * taps)
    of_copy = (ANY_COPIED_ROW * plane.copied_rows + ANY_COPIED * elements) / op.depth_multiplier
    of_rows = ANY_ROW * plane.output_rows + of_windows
    return known + ANY_RESULT * results + channels * (ANY_CHANNEL + of_copy + of_rows)
