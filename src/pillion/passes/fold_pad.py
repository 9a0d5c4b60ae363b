# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph, rewrite
from pillion.ir.op import Op
from pillion.ir.types import Sides
from pillion.ops import Conv2d, DepthwiseConv2d, MaxPool2d, Pad


def fold_pad(graph: Graph) -> Graph:
    """Folds a pad into the padding of the convolution (zeros) or max pool (the smallest value) that follows."""
    return rewrite(graph, _fold_into_padding)


def _fold_into_padding(graph: Graph, op: Op) -> list[Op] | None:
    pad = graph.producers.get(op.x) if isinstance(op, (Conv2d, DepthwiseConv2d, MaxPool2d)) else None
    if not isinstance(pad, Pad) or not isinstance(op, (Conv2d, DepthwiseConv2d, MaxPool2d)):
        return None
    outside = -128 if isinstance(op, MaxPool2d) else op.x.zero_point
    around = (pad.before[0], pad.before[3], pad.after[0], pad.after[3])
    if (
        pad.value != outside
        or any(around)
        or (isinstance(op, MaxPool2d) and not _windows_reach_image(op, pad))
    ):
        return None
    return [dataclasses.replace(op, x=pad.x, padding=_add_padding(op.padding, pad))]


def _add_padding(padding: Sides, pad: Pad) -> Sides:
    top, left, bottom, right = padding
    return top + pad.before[1], left + pad.before[2], bottom + pad.after[1], right + pad.after[2]


def _windows_reach_image(op: MaxPool2d, pad: Pad) -> bool:
    """Whether every window of the pool still contains a pixel of the image."""
    return all(p < k for p, k in zip(_add_padding(op.padding, pad), (*op.kernel, *op.kernel), strict=True))
