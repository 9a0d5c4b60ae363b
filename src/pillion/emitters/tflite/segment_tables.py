# SPDX-License-Identifier: Apache-2.0
"""Lookup tables of segments. TFLite has no operator for them; in the file of a segment they are Pillion's own."""

from __future__ import annotations

import dataclasses

from pillion.codecs.tflite.node import Node
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import Lut
from pillion.ops.unary_functions import Function
from pillion.schemas import tflite


class SegmentTable(Lut):
    """A lookup table that is written as an operator."""


def with_segment_tables(graph: Graph) -> Graph:
    """Returns the graph with lookup tables that have an operator."""
    return graph.replace(ops=tuple(map(_with_operator, graph.ops)))


def _with_operator(op: Op) -> Op:
    if not isinstance(op, Lut) or op.function is not Function.TABLE:
        return op
    return SegmentTable(**{field.name: getattr(op, field.name) for field in dataclasses.fields(op)})


def segment_table(op: SegmentTable) -> list[Node]:
    """Returns the operator of a table."""
    return [Node(f"CUSTOM {tflite.TABLE_OPERATOR}", (op.x, op.table), (op.y,))]
