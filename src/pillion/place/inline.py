# SPDX-License-Identifier: Apache-2.0
"""A placed graph back as one graph of plain ops."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import Segment


def inline_segments(graph: Graph) -> Graph:
    """Puts the ops of segments in the place of the segments. Whose arithmetic they had is lost: the caller names one."""
    ops: list[Op] = []
    for op in graph.ops:
        ops.extend(_inside(op) if isinstance(op, Segment) else (op,))
    return graph.replace(ops=tuple(ops))


def _inside(op: Segment) -> tuple[Op, ...]:
    """The ops of a segment, over the values outside where it begins and ends."""
    op.want_open()
    borders = zip((*op.body.inputs, *op.body.outputs), (*op.xs, *op.ys), strict=True)
    return op.body.substitute({inner: outer for inner, outer in borders if inner is not outer}).ops
