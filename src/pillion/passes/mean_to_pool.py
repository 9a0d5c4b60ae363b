# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph, Names, rewrite
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import AvgPool2d, Mean, Reshape


def mean_to_pool(graph: Graph) -> Graph:
    """A mean over height and width that keeps its scale is an average pool over the whole image."""
    names = Names(list(graph.values))
    return rewrite(graph, lambda g, op: _pooled(op, names))


def _pooled(op: Op, names: Names) -> list[Op] | None:
    if not isinstance(op, Mean) or op.x.type.rank != 4 or op.axes != (1, 2) or op.x.type.quant != op.y.type.quant:
        return None
    batch, height, width, channels = op.x.shape
    if op.keepdims:
        return [AvgPool2d(x=op.x, y=op.y, kernel=(height, width), source=op.source)]
    shape = (batch, 1, 1, channels)
    pooled = Value(names.fresh(f"{op.y.name}_pooled"), dataclasses.replace(op.y.type, shape=shape))
    return [
        AvgPool2d(x=op.x, y=pooled, kernel=(height, width), source=op.source),
        Reshape(x=pooled, y=op.y, source=op.source),
    ]
