# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op, ScaledOp, operand_fields
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite


def merge_duplicates(graph: Graph) -> Graph:
    """Merges ops that compute the same from the same operands."""
    first: dict[object, Op] = {}

    def rule(op: Op, at: RewriteSweep) -> Replacement:
        known = first.setdefault(_op_key(op), op)
        is_needed = known is op or any(graph.is_output(r) for r in op.results)
        return None if is_needed else at.read_instead(op, *known.results)

    return rewrite(graph, rule)


def _op_key(op: Op) -> object:
    operands = tuple(getattr(op, name) for name in operand_fields(op))
    types = tuple(r.type for r in op.results)
    multipliers = op.explicit if isinstance(op, ScaledOp) else ()
    attributes = tuple(sorted((k, repr(v)) for k, v in op.attributes.items()))
    return type(op), operands, types, multipliers, attributes
