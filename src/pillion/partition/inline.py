# SPDX-License-Identifier: Apache-2.0
"""Converts a partitioned graph back to a graph without segments."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import Segment


def inline_segments(graph: Graph) -> Graph:
    """Returns the graph with segments replaced by their ops. The segments' arithmetic is lost, so the caller
    sets one."""
    ops: list[Op] = []
    for op in graph.ops:
        ops.extend(_ops_on_outer_values(op) if isinstance(op, Segment) else (op,))
    return graph.replace(ops=tuple(ops))


def _ops_on_outer_values(op: Segment) -> tuple[Op, ...]:
    """Returns the ops of a segment on the outer values of its boundary."""
    op.require_open()
    borders = zip((*op.body.inputs, *op.body.outputs), (*op.xs, *op.ys), strict=True)
    return op.body.substitute({inner: outer for inner, outer in borders if inner is not outer}).ops
