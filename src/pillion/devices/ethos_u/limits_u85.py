# SPDX-License-Identifier: Apache-2.0
"""The limits of Ethos-U85 that differ from U55's and U65's, verified with Vela 5.2 and the interpreter of its command
streams."""

from __future__ import annotations

import numpy as np

from pillion.devices.device import Found, limit
from pillion.devices.ethos_u.limits import MAX_STRIDE, resize_text
from pillion.ir.numerics import Int64Array
from pillion.ops import Conv2d, DepthwiseConv2d
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

MAX_TRANSPOSED_STRIDE = 32
MAX_NEAREST = 1024
"""The largest factor of nearest resizing."""
MAX_BILINEAR = 2048
"""The largest factor of bilinear resizing, a power of two."""
MAX_HALF_PIXEL = 512
"""The largest factor of bilinear resizing with half pixels. Vela allows 1024, where TFLite's positions of 10 bits are not exact."""


@limit(f"at most {MAX_STRIDE}, or no padding")
def supported_strides(op: Conv2d | DepthwiseConv2d) -> Found:
    """Vela 5.2 cuts longer strides into operations that read too soon, or leave out pixels, if there is a border."""
    fits = max(op.stride) <= MAX_STRIDE or not any(op.padding)
    return f"{'x'.join(map(str, op.stride))} with the padding {op.padding}", fits


@limit(f"at most the kernel, and {MAX_TRANSPOSED_STRIDE}")
def transposed_stride(op: TransposeConv2d) -> Found:
    """The kernel of a transposed convolution leaves no gaps."""
    sides = zip(op.stride, op.kernel, strict=True)
    fits = all(step <= min(size, MAX_TRANSPOSED_STRIDE) for step, size in sides)
    return f"{op.stride} for a kernel of {op.kernel}", fits


@limit(f"scaled by at most {MAX_NEAREST}; with align_corners no side shrinks to 1")
def nearest_factor(op: ResizeNearest) -> Found:
    """Any factor, up to a limit."""
    pairs = list(zip(op.x.shape[1:3], op.size, strict=True))
    gone = op.align_corners and any(b == 1 < a for a, b in pairs)
    return resize_text(op), not gone and all(b // a <= MAX_NEAREST for a, b in pairs)


@limit("with half_pixel or align_corners; else the pixels that half_pixel takes")
def nearest_pixels(op: ResizeNearest) -> Found:
    """Vela 5.2 resizes with half pixels if corners are not aligned."""
    same = all(np.array_equal(op.whole_sources(axis), _velas_pixels(op, axis)) for axis in (0, 1))
    return resize_text(op), same


def _velas_pixels(op: ResizeNearest, axis: int) -> Int64Array:
    """Returns the source of each row or column of the result in Vela's stream."""
    before, after = op.x.shape[1 + axis], op.size[axis]
    at = np.arange(after, dtype=np.int64)
    if op.align_corners:
        before, after = max(before - 1, 0), max(after - 1, 1)
        return (2 * at * before + after) // (2 * after)
    return (2 * at + 1) * before // (2 * after)


@limit(f"powers of two up to {MAX_BILINEAR}, with half pixels {MAX_HALF_PIXEL}, or from one pixel")
def bilinear_factor(op: ResizeBilinear) -> Found:
    """Each axis grows by a power of two."""
    most, less = MAX_HALF_PIXEL if op.half_pixel else MAX_BILINEAR, int(op.align_corners)
    pairs = zip(op.x.shape[1:3], op.size, strict=True)
    fits = op.x.shape[1:3] == (1, 1) or all(_grows_by_power_of_two(a, b, less, most) for a, b in pairs)
    return resize_text(op), fits


def _grows_by_power_of_two(before: int, after: int, less: int, most: int) -> bool:
    """Whether an axis grows by a power of two, measured between corner pixels if these are aligned."""
    if before == after:
        return True
    if before <= less:
        return False
    factor, rest = divmod(after - less, before - less)
    return rest == 0 and 1 <= factor <= most and factor & (factor - 1) == 0
