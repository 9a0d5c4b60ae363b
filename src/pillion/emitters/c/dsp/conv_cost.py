# SPDX-License-Identifier: Apache-2.0
"""Estimated instructions of the DSP convolution kernels, fitted to counts in the emulator. For 12 shapes with 1 to
6 rows, the ring kernel's error is at most 0.5 %; for 11 padded shapes, the gathering kernel's is at most 1.5 %."""

from __future__ import annotations

from pillion.ops.conv import Conv2d

PIXELS = 3
"""The pixels that are computed together; a remainder of one or two costs as much as three."""
MAC, RESULT = 0.714, 7.0
"""Instructions for each multiplication, and for each element of the result."""
GATHERED_INPUT, GATHERED_PIXEL, GATHERED_CALL, GATHERED_TAP = 0.87, 57.0, 400.0, 127.5
"""Instructions of the gathering kernel for each input of a window, each pixel, each call, and each tap of a group
of pixels whose windows leave the image or lie in two rows of results."""
RING_INPUT, RING_PIXEL, RING_CALL, RING_WIDENED, RING_SIDE, RING_CROSSED = (
    0.437,
    50.0,
    175.0,
    1.145,
    4.9,
    315.0,
)
"""Instructions of the ring kernel for each input of a window, each pixel, each call, each widened element, each
padded element at the sides of the ring, and each row of results that ends within a group of pixels."""


def gathering_work(op: Conv2d) -> float:
    """Estimates the instructions of the kernel that gathers windows from the image."""
    pixels, inputs = _pixels(op), op.kernel[0] * op.kernel[1] * op.in_channels
    of_pixel = inputs * (MAC * op.out_channels + GATHERED_INPUT) + RESULT * op.out_channels + GATHERED_PIXEL
    by_tap = GATHERED_TAP * op.kernel[0] * op.kernel[1] * _groups_gathered_by_tap(op)
    return op.y.shape[0] * (GATHERED_CALL + pixels * of_pixel + by_tap)


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
    """Counts the windows along an axis that begin before the image, and those that end behind it."""
    first, step = op.padding[axis], op.stride[axis]
    reach = first + op.x.shape[1 + axis] - 1 - (op.kernel[axis] - 1) * op.dilation[axis]
    count = op.y.shape[1 + axis]
    inside = min(max(reach // step + 1, 0), count)
    return min(-(-first // step), count), count - inside


def ring_work(op: Conv2d, ring_rows: int) -> float:
    """Estimates the instructions of the kernel that keeps `ring_rows` widened rows in a ring."""
    _, height, width, channels = op.x.shape
    pixels, inputs = _pixels(op), op.kernel[0] * op.kernel[1] * channels
    of_pixel = inputs * (MAC * op.out_channels + RING_INPUT) + RESULT * op.out_channels + RING_PIXEL
    columns = (op.y.shape[2] - 1) * op.stride[1] + op.kernel[1]
    sides = ring_rows * max(columns - width, 0) * channels
    crossed = op.y.shape[1] * (op.y.shape[2] % PIXELS > 0)
    around = RING_WIDENED * height * width * channels + RING_SIDE * sides + RING_CROSSED * crossed
    return op.y.shape[0] * (RING_CALL + pixels * of_pixel + around)


def _pixels(op: Conv2d) -> int:
    """Returns the computed pixels of one image, in complete groups."""
    _, height, width, _ = op.y.shape
    return -(-height * width // PIXELS) * PIXELS
