# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op, ScaledOp, operand_fields
from pillion.ir.types import Value


def merge_duplicates(graph: Graph) -> Graph:
    """Merges ops that compute the same from the same operands."""
    first: dict[object, Op] = {}
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        op = op.substitute(same)
        known = first.setdefault(_op_key(op), op)
        if known is op or any(graph.is_output(r) for r in op.results):
            ops.append(op)
        else:
            same.update(zip(op.results, known.results, strict=True))
    return graph.replace(ops=tuple(ops))


def _op_key(op: Op) -> object:
    operands = tuple(getattr(op, name) for name in operand_fields(op))
    types = tuple(r.type for r in op.results)
    multipliers = op.given if isinstance(op, ScaledOp) else ()
    return (
        type(op),
        operands,
        types,
        multipliers,
        tuple(sorted((k, repr(v)) for k, v in op.attributes.items())),
    )
