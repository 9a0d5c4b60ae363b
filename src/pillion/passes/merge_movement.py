# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Clamp, Lut, Requantize, Reshape, Transpose

POINTWISE = (Lut, Clamp, Requantize)
Move = Transpose | Reshape


def merge_movement(graph: Graph) -> Graph:
    """Merges successive transposes and reshapes; turns a transpose that only moves axes of size 1 into a
    reshape; moves one past an elementwise function if it then meets another."""
    graph = graph.without_dead_ops()
    while (merged := _merge_with_producers(graph)) is not graph:
        graph = merged
    return _compute_outputs_in_place(graph)


@rewrite_pass(Transpose, Reshape)
def _merge_with_producers(op: Move, at: RewriteSweep) -> Replacement:
    """Merges each move with the ops before it. The sweep also visits the moves that a change makes mergeable."""
    ops = _merge_move(op, at)
    return None if ops == [op] else ops


def _merge_move(move: Move, at: RewriteSweep) -> list[Op]:
    while (composed := _compose_moves(move, at.producers.get(move.x))) is not None:
        at.shared.update({composed.x} - {move.x})
        move = composed
    if _keeps_order(move) and not at.graph.is_output(move.y):
        return at.read_instead(move, move.x)
    pointwise = at.producers.get(move.x)
    if not isinstance(pointwise, POINTWISE) or move.x in at.shared or at.graph.only_user(move.x) is None:
        return [move]
    if type(at.producers.get(pointwise.x)) is not type(move):
        return [move]
    moved = pointwise.x.like(f"{move.y.name}_moved", shape=move.y.shape)
    early = _merge_move(dataclasses.replace(move, x=pointwise.x, y=moved), at)
    return [*early, dataclasses.replace(pointwise, x=moved, y=move.y).substitute(at.same)]


def _compose_moves(move: Move, before: Op | None) -> Move | None:
    """Composes two successive moves into one, or simplifies one; None if that is impossible."""
    match move, before:
        case Transpose(), _ if move.is_identity and move.order != tuple(range(len(move.order))):
            return Reshape(x=move.x, y=move.y, source=move.source)
        case Reshape(), Reshape():
            return dataclasses.replace(move, x=before.x)
        case Transpose(), Transpose():
            return dataclasses.replace(move, x=before.x, order=tuple(before.order[a] for a in move.order))
    return None


def _keeps_order(move: Move) -> bool:
    """Whether a move changes neither the order of elements nor the shape."""
    return move.x.shape == move.y.shape and move.is_identity


def _compute_outputs_in_place(graph: Graph) -> Graph:
    """Removes moves without effect whose result is an output: the op before computes it. Inputs, constants and other
    outputs stay unchanged."""
    idle = {
        op.x: op
        for op in reversed(graph.ops)
        if isinstance(op, Move) and _keeps_order(op) and op.x in graph.producers and not graph.is_output(op.x)
    }
    if not idle:
        return graph
    removed = set(idle.values())
    left = graph.replace(ops=tuple(op for op in graph.ops if op not in removed))
    return left.substitute({x: op.y for x, op in idle.items()})
