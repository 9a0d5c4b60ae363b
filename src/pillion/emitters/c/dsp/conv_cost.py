# SPDX-License-Identifier: Apache-2.0
"""Estimated instructions of the DSP convolution kernels, fitted to counts in the emulator of 40 to 140 shapes with 1
to 12 rows: the error of the 1x1 kernel is at most 2 %, of the ring 4 %, of the gathering kernel 7 %, of the thin one 8 %."""

from __future__ import annotations

import math

from pillion.ops.conv import Conv2d

PIXELS = 3
"""The pixels that are computed together; a remainder of one or two costs as much as three."""
PAIR, PAIR_STEP, PAIR_ROUND, PAIR_RECTIFIED, LONE_CHANNEL = 48.3, 17.0, 0.95, -7.0, 40.0
"""Instructions for three pixels of two channels: per pair of channels, per four inputs, and per eight such fours; per
pair whose negative sums need no exact rounding; per single channel."""
CLAMPED = 2.0
"""Instructions for each element of a clamped result."""
POINT_CALL, POINT_JUMP, POINT_GROUP, POINT_STEP = 149.0, 27.6, 89.2, 10.45
"""Instructions of the 1x1 kernel for each call, each eight fours of inputs, each three pixels, and their fours of
inputs."""
ALONE, ALONE_PAIR, ALONE_STEP = 153.0, 14.1, 10.8
"""Instructions of a pixel that is left over: for itself, each pair of channels, and each four inputs of a pair."""
THIN_CALL, THIN_GROUP, THIN_WIDENED, THIN_ROW, THIN_WORD = 461.0, 173.0, 23.2, 15.9, 11.0
"""Instructions of the thin kernel for each call, each three pixels, whether kernel rows have words of four bytes, their
rows and words."""
THIN_END, THIN_END_ROW = 15.7, 12.0
"""Instructions for each byte behind the last word of kernel rows, and for this byte in each row."""
THIN_OUTSIDE, THIN_OUTSIDE_ROW, THIN_OUTSIDE_BYTE = 485.0, 51.2, 4.0
"""Instructions of the thin kernel for three pixels whose windows leave the image, their kernel rows, and their
inputs."""
GATHERED_CALL, GATHERED_JUMP, GATHERED_GROUP, GATHERED_ROW, GATHERED_STEP = 491.0, 48.0, 145.0, 9.8, 10.2
"""Instructions of the gathering kernel for each call, each eight fours of inputs, each three pixels, and their kernel
rows and fours of inputs."""
OUTSIDE_ROW, OUTSIDE_TAP = 41.0, 97.8
"""Instructions of the gathering kernel for kernel rows and taps of three pixels whose windows leave the image or lie in
two rows of results."""
RING_CALL, RING_GROUP, RING_KERNEL_ROW, RING_STEP = 417.0, 78.7, 29.2, 6.17
"""Instructions of the ring kernel per widened element, per row of these, per element of rows above and below the
image, and per row of results that ends within a group of pixels."""
RING_WIDENED, RING_ROW, RING_PADDED, RING_CROSSED = 0.462, 179.0, 4.2, 8.2
"""Instructions of the ring kernel for each widened element, each row of them, each element of rows above and below the
image, and each row of results that ends within a group of pixels."""


def pointwise_work(op: Conv2d) -> float:
    """Estimates the instructions of the 1x1 kernel, which computes a pixel alone that is left over."""
    pixels, steps = math.prod(op.y.shape[:3]), op.in_channels / 4
    alone = pixels % PIXELS == 1
    groups = -(-(pixels - alone) // PIXELS)
    of_group = POINT_GROUP + POINT_STEP * steps + _pairs_work(op, op.in_channels)
    of_one = ALONE + -(-op.out_channels // 2) * (ALONE_PAIR + ALONE_STEP * steps)
    return (
        POINT_CALL
        + POINT_JUMP * _unrolled_loop_rounds(op.in_channels)
        + groups * of_group
        + alone * of_one
        + _clamp_work(op)
    )


def thin_work(op: Conv2d) -> float:
    """Estimates the instructions of the kernel of any number of input channels."""
    rows, row_bytes = op.kernel[0], op.kernel[1] * op.in_channels
    words, ends, inputs = row_bytes // 4, row_bytes % 4, rows * row_bytes
    of_group = THIN_GROUP + ends * (THIN_END + THIN_END_ROW * rows) + _pairs_work(op, inputs)
    if words:
        of_group += THIN_WIDENED + rows * (THIN_ROW + THIN_WORD * words)
    outside = THIN_OUTSIDE + THIN_OUTSIDE_ROW * rows + THIN_OUTSIDE_BYTE * inputs
    of_image = _pixel_group_count(op) * of_group + _groups_gathered_by_tap(op) * outside
    return THIN_CALL + op.y.shape[0] * of_image + _clamp_work(op)


def gathering_work(op: Conv2d) -> float:
    """Estimates the instructions of the kernel that gathers windows from the image."""
    rows, inputs = op.kernel[0], op.kernel[0] * op.kernel[1] * op.in_channels
    of_group = GATHERED_GROUP + GATHERED_ROW * rows + GATHERED_STEP * inputs / 4 + _pairs_work(op, inputs)
    by_tap = rows * (OUTSIDE_ROW + OUTSIDE_TAP * op.kernel[1])
    of_image = _pixel_group_count(op) * of_group + _groups_gathered_by_tap(op) * by_tap
    return (
        GATHERED_CALL
        + GATHERED_JUMP * _unrolled_loop_rounds(inputs)
        + op.y.shape[0] * of_image
        + _clamp_work(op)
    )


def ring_work(op: Conv2d) -> float:
    """Estimates the instructions of the kernel that keeps widened rows in a ring."""
    _, height, width, channels = op.x.shape
    rows, inputs = op.kernel[0], op.kernel[0] * op.kernel[1] * channels
    of_group = RING_GROUP + RING_KERNEL_ROW * rows + RING_STEP * inputs / 4 + _pairs_work(op, inputs)
    columns = (op.y.shape[2] - 1) * op.stride[1] + op.kernel[1]
    last = (op.y.shape[1] - 1) * op.stride[0] + rows - op.padding[0]
    read, padded = min(height, last), op.padding[0] + max(last - height, 0)
    widened = read * (RING_ROW + RING_WIDENED * min(width, columns) * channels)
    crossed = RING_CROSSED * op.y.shape[1] * (op.y.shape[2] % PIXELS > 0)
    of_image = (
        _pixel_group_count(op) * of_group + widened + RING_PADDED * padded * columns * channels + crossed
    )
    return RING_CALL + op.y.shape[0] * of_image + _clamp_work(op)


def _pairs_work(op: Conv2d, inputs: int) -> float:
    """Returns the instructions of the dot products of three pixels with all output channels."""
    rectified = PAIR_RECTIFIED * (op.low >= op.y.zero_point)
    of_pair = PAIR + PAIR_STEP * -(-inputs // 4) + PAIR_ROUND * _unrolled_loop_rounds(inputs) + rectified
    return -(-op.out_channels // 2) * of_pair + LONE_CHANNEL * (op.out_channels % 2)


def _unrolled_loop_rounds(inputs: int) -> int:
    """Returns the rounds of eight fours of inputs behind the first four."""
    return -(-(-(-inputs // 4) - 1) // 8)


def _clamp_work(op: Conv2d) -> float:
    """Returns the instructions of the pass that clamps the result."""
    return CLAMPED * op.y.type.elements * ((op.low, op.high) != (-128, 127))


def _groups_gathered_by_tap(op: Conv2d) -> float:
    """Estimates the groups of pixels of an image whose windows leave the image or lie in two rows of results."""
    _, height, width, _ = op.y.shape
    (above, below), (left, right) = (_windows_outside_image(op, axis) for axis in (0, 1))
    if op.dilation[1] > 1:
        return height * width / PIXELS
    outside = min(above + below, height)
    sides = (left > 0) + (right > 0)
    of_row = sides if width % PIXELS == 0 or not sides else 1 + (sides - 1) / PIXELS
    return outside * width / PIXELS + (height - outside) * min(of_row, width / PIXELS)


def _windows_outside_image(op: Conv2d, axis: int) -> tuple[int, int]:
    """Counts the windows along an axis that begin before the image, and the windows that end behind it."""
    first, step = op.padding[axis], op.stride[axis]
    reach = first + op.x.shape[1 + axis] - 1 - (op.kernel[axis] - 1) * op.dilation[axis]
    count = op.y.shape[1 + axis]
    inside = min(max(reach // step + 1, 0), count)
    return min(-(-first // step), count), count - inside


def _pixel_group_count(op: Conv2d) -> int:
    """Returns the groups of pixels of one image."""
    _, height, width, _ = op.y.shape
    return -(-height * width // PIXELS)
