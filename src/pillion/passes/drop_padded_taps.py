# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import constant_value
from pillion.ops import Conv2d, DepthwiseConv2d


@rewrite_pass(Conv2d, DepthwiseConv2d)
def drop_padded_taps(op: Conv2d | DepthwiseConv2d, at: RewriteSweep) -> Replacement:
    """Keeps one row or column of a convolution's window if the others meet padding alone, as 3x3 windows do on images
    of one pixel, and dilated ones on images smaller than the dilation."""
    weights, dilation, padding = op.weights, [*op.dilation], [*op.padding]
    for axis in (0, 1) if weights.is_constant else ():
        tap, last = _only_tap(op, axis), op.kernel[axis] - 1
        if last == 0 or tap is None:
            continue
        before = op.padding[axis] - tap * op.dilation[axis]
        behind = op.padding[2 + axis] - (last - tap) * op.dilation[axis]
        if min(before, behind) < 0:
            continue
        kept = weights.constant.take([tap], axis=1 + axis)
        weights = constant_value(at.names.fresh(op.weights.name), kept, weights.type.quant, weights.dtype)
        dilation[axis], padding[axis], padding[2 + axis] = 1, before, behind
    if weights is op.weights:
        return None
    (down, across), (top, left, bottom, right) = dilation, padding
    sides = (top, left, bottom, right)
    return [dataclasses.replace(op, weights=weights, dilation=(down, across), padding=sides)]


def _only_tap(op: Conv2d | DepthwiseConv2d, axis: int) -> int | None:
    """Returns the one row (axis 0) or column of the window that meets the image; None if several do, or none does."""
    size, stride, dilation = op.x.shape[1 + axis], op.stride[axis], op.dilation[axis]
    begins = range(-op.padding[axis], op.y.shape[1 + axis] * stride - op.padding[axis], stride)
    met = [
        tap for tap in range(op.kernel[axis]) if any(0 <= begin + tap * dilation < size for begin in begins)
    ]
    return met[0] if len(met) == 1 else None
