# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Conv2d, DepthwiseConv2d, MaxPool2d, Pad, Requantize


@rewrite_pass(Conv2d, DepthwiseConv2d, MaxPool2d)
def fold_pad(op: Conv2d | DepthwiseConv2d | MaxPool2d, at: RewriteSweep) -> Replacement:
    """Folds a pad into the padding of the convolution (zeros) or max pool (the smallest value) that follows, also
    from before a conversion between widths."""
    is_pool = isinstance(op, MaxPool2d)
    conversion = None if is_pool else _conversion(at.graph.producers.get(op.x))
    read = conversion.activations[0] if conversion else op.x
    pad = at.graph.producers.get(read)
    if not isinstance(pad, Pad) or pad.value != (read.dtype.bounds[0] if is_pool else read.zero_point):
        return None
    if any((pad.before[0], pad.before[3], pad.after[0], pad.after[3])):
        return None
    top, left, bottom, right = op.padding
    padding = top + pad.before[1], left + pad.before[2], bottom + pad.after[1], right + pad.after[2]
    # Every window of a pool still contains a pixel of the image.
    if is_pool and any(p >= k for p, k in zip(padding, (*op.kernel, *op.kernel), strict=True)):
        return None
    if conversion is None:
        return [dataclasses.replace(op, x=pad.x, padding=padding)]
    converted = op.x.like(at.names.fresh(f"{op.x.name}_unpadded"), shape=pad.x.shape)
    return [
        conversion.substitute({read: pad.x, op.x: converted}),
        dataclasses.replace(op, x=converted, padding=padding),
    ]


def _conversion(op: Op | None) -> Op | None:
    """Returns the op if it requantizes; this maps zero to zero."""
    return op if isinstance(op, Requantize) else None
