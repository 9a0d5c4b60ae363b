# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Function, Lut, Quantize, Reshape, Slice, Transpose

Move = Transpose | Reshape | Slice


def hoist_quantize(graph: Graph) -> Graph:
    """Moves a quantize, or a clamp that can become bounds, before the data movement that precedes it: one
    byte moves instead of four."""
    while True:
        swapped = _hoist_once(graph)
        if swapped is graph:
            return graph
        graph = swapped


def _hoist_once(graph: Graph) -> Graph:
    """Makes one sweep over elementwise ops whose operand is moved for them alone."""
    instead: dict[Op, tuple[Op, ...]] = {}
    names = UniqueNames(graph.values)
    for op in graph.ops:
        move = graph.producers.get(op.operands[0]) if op.operands else None
        if isinstance(move, Move) and graph.only_user(move.y) is op and _can_be_hoisted(op, move, graph):
            instead[move] = ()
            instead[op] = _swap_with_move(move, op, names)
    if not instead:
        return graph
    return graph.replace(ops=tuple(new for op in graph.ops for new in instead.get(op, (op,))))


def _can_be_hoisted(op: Op, move: Move, graph: Graph) -> bool:
    is_clamp = isinstance(op, Lut) and op.function is Function.CLAMP
    return isinstance(op, Quantize) or (
        is_clamp and isinstance(move, Reshape) and graph.only_user(move.x) is move
    )


def _swap_with_move(move: Move, op: Op, names: UniqueNames) -> tuple[Op, Op]:
    y = op.results[0]
    early = Value(names.fresh(f"{move.y.name}_early"), dataclasses.replace(y.type, shape=move.x.shape))
    first = op.substitute({move.y: move.x, y: early})
    return first, dataclasses.replace(move, x=early, y=y)
