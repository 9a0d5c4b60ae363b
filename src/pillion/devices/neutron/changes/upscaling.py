# SPDX-License-Identifier: Apache-2.0
"""Changes to ops whose result is the larger image: transposed convolutions and resizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from pillion.devices.neutron import limits as limits
from pillion.devices.retyped import Change, fitted, retyped
from pillion.ir.op import Op
from pillion.ir.types import Pair
from pillion.ops import (
    ResizeBilinear,
    ResizeNearest,
    TransposeConv2d,
)


def shorter_stride(op: Op) -> Iterator[Change]:
    """Suggests a transposed convolution with the longest stride that the NPU has for its kernel."""
    if isinstance(op, TransposeConv2d):
        most = [min(limits.MAX_TRANSPOSE_CONV_STRIDE, k) for k in op.kernel]
        new = (min(op.stride[0], most[0]), min(op.stride[1], most[1]))
        yield f"stride {op.stride} → {new}", _stepping(op, new, op.dilation)


def no_dilation(op: Op) -> Iterator[Change]:
    """Suggests a transposed convolution whose kernel has no gaps."""
    if isinstance(op, TransposeConv2d):
        yield f"dilation {op.dilation} → (1, 1)", _stepping(op, op.stride, (1, 1))


def _stepping(op: TransposeConv2d, stride: Pair, dilation: Pair) -> Op:
    """With these steps, an output padding smaller than one of them, and no more cut off than there is."""
    steps = zip(op.output_padding, stride, dilation, strict=True)
    height, width = (min(more, max(s, d) - 1) for more, s, d in steps)
    changed = dataclasses.replace(op, stride=stride, dilation=dilation, output_padding=(height, width))
    return (
        fitted(changed)
        if min(changed.output_shape) > 0
        else fitted(dataclasses.replace(changed, padding=(0, 0, 0, 0)))
    )


def less_padding(op: Op) -> Iterator[Change]:
    """Suggests a transposed convolution that cuts off less than its kernel is large."""
    if isinstance(op, TransposeConv2d):
        sides = zip(op.padding, (*op.kernel, *op.kernel), strict=True)
        top, left, bottom, right = (min(p, k - 1) for p, k in sides)
        new = (top, left, bottom, right)
        yield f"padding {op.padding} → {new}", fitted(dataclasses.replace(op, padding=new))


def fewer_channels(op: Op) -> Iterator[Change]:
    """Suggests as many input channels as fit, in blocks of a pipeline of the smaller or of the larger NPU."""
    if isinstance(op, TransposeConv2d):
        for block in (4, 8):
            channels = limits.MAX_DOT_PRODUCT // math.prod(op.kernel) // block * block
            if channels:
                x = retyped(op.x, (*op.x.shape[:3], channels))
                weights = retyped(op.weights, (*op.weights.shape[:3], channels))
                words = f"input channels {op.in_channels} → {channels}"
                yield words, dataclasses.replace(op, x=x, weights=weights)


def nearest_size(op: Op) -> Iterator[Change]:
    """Suggests the nearest size that the NPU has. One pixel has no distance between its corners, so that mode goes first."""
    if not isinstance(op, (ResizeNearest, ResizeBilinear)):
        return
    less = int(op.align_corners)
    if min(op.x.shape[1:3]) <= less:
        words, changed = next(other_mode(op))
        yield from ((f"{words} and {more}", again) for more, again in nearest_size(changed))
        return
    axes = zip(op.x.shape[1:3], op.size, strict=True)
    height, width = (_nearest(before - less, after - less) + less for before, after in axes)
    words = f"size {op.size} → {(height, width)}"
    yield words, fitted(dataclasses.replace(op, size=(height, width)))


def _nearest(before: int, after: int) -> int:
    return min((before * f for f in limits.RESIZE_FACTORS), key=lambda size: abs(size - after))


def other_mode(op: Op) -> Iterator[Change]:
    """Suggests a resize with the treatment of edges that the NPU has for its kind."""
    if isinstance(op, (ResizeNearest, ResizeBilinear)):
        edges = isinstance(op, ResizeBilinear)
        words = f"align_corners=False, half_pixel={edges}"
        yield words, dataclasses.replace(op, align_corners=False, half_pixel=edges)
