# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Pad, Slice
from pillion.ops.pool import Pool
from pillion.ops.resize import Resize

IDLERS = (Pool, Resize, Slice, Pad)


def drop_identities(graph: Graph) -> Graph:
    """Removes identities: pools of single pixels, resizes to the same size, slices of everything, pads by
    nothing."""
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for old in graph.ops:
        op = old.substitute(same)
        if _does_nothing(op) and not graph.is_output(op.results[0]):
            same[op.results[0]] = op.activations[0]
        else:
            ops.append(op)
    return graph.replace(ops=tuple(ops))


def _does_nothing(op: Op) -> bool:
    return isinstance(op, IDLERS) and op.is_identity and op.activations[0].type == op.results[0].type
