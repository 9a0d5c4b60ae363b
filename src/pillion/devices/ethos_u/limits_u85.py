# SPDX-License-Identifier: Apache-2.0
"""The limits of Ethos-U85 that differ from those of U55 and U65, verified with Vela 5.2. No command stream of
a U85 was executed."""

from __future__ import annotations

from pillion.ir.op import Op
from pillion.ops.resize import Resize, ResizeBilinear
from pillion.ops.transpose_conv import TransposeConv2d

MAX_TRANSPOSED_STRIDE = 32
MAX_NEAREST = 1024
"""The largest factor of nearest resizing."""
MAX_BILINEAR = 2048
"""The largest factor of bilinear resizing, a power of two."""
MAX_HALF_PIXEL = 1024
"""The largest factor of bilinear resizing with half pixels."""


def has_supported_transposed_stride(op: Op) -> tuple[object, bool]:
    """Whether the kernel of a transposed convolution leaves no gaps."""
    assert isinstance(op, TransposeConv2d)
    fits = all(
        step <= min(size, MAX_TRANSPOSED_STRIDE) for step, size in zip(op.stride, op.kernel, strict=True)
    )
    return f"{op.stride} for a kernel of {op.kernel}", fits


def has_supported_resize_factor(op: Op) -> tuple[object, bool]:
    """Whether the resize factors are supported: any for nearest, powers of two for bilinear."""
    assert isinstance(op, Resize)
    before, after = op.x.shape[1:3], op.size
    shown = " and ".join(f"{b}/{a}" for a, b in zip(before, after, strict=True))
    pairs = list(zip(before, after, strict=True))
    if isinstance(op, ResizeBilinear):
        most = MAX_HALF_PIXEL if op.half_pixel else MAX_BILINEAR
        fits = before == (1, 1) or all(
            _grows_by_power_of_two(a, b, int(op.align_corners), most) for a, b in pairs
        )
    else:
        gone = op.align_corners and any(b == 1 < a for a, b in pairs)
        fits = not gone and all(b // a <= MAX_NEAREST for a, b in pairs)
    return shown, fits


def _grows_by_power_of_two(before: int, after: int, less: int, most: int) -> bool:
    """Whether an axis grows by a power of two, measured between corner pixels if these are aligned."""
    if before == after:
        return True
    if before <= less:
        return False
    factor, rest = divmod(after - less, before - less)
    return rest == 0 and 1 <= factor <= most and factor & (factor - 1) == 0
