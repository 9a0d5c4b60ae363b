# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph, Names
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Quantize, Reshape, Slice, Transpose

MOVES = (Transpose, Reshape, Slice)


def quantize_early(graph: Graph) -> Graph:
    """A quantize that follows data movement goes before it: one byte is moved instead of four."""
    while True:
        swapped = _swap_one_each(graph)
        if swapped is graph:
            return graph
        graph = swapped


def _swap_one_each(graph: Graph) -> Graph:
    """One sweep over the quantizes whose operand is moved for them alone."""
    instead: dict[Op, tuple[Op, ...]] = {}
    names = Names(graph.values)
    for op in graph.ops:
        move = graph.producers.get(op.x) if isinstance(op, Quantize) else None
        if isinstance(move, MOVES) and isinstance(op, Quantize) and graph.only_user(move.y) is op:
            instead[move] = ()
            instead[op] = _swapped(move, op, names)
    if not instead:
        return graph
    return graph.replace(ops=tuple(new for op in graph.ops for new in instead.get(op, (op,))))


def _swapped(move: Transpose | Reshape | Slice, quantize: Quantize, names: Names) -> tuple[Op, Op]:
    moved_type = dataclasses.replace(quantize.y.type, shape=move.x.shape)
    early = Value(names.fresh(f"{move.y.name}_q"), moved_type)
    return dataclasses.replace(quantize, x=move.x, y=early), dataclasses.replace(move, x=early, y=quantize.y)
