# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Shape, Value
from pillion.ops import Clamp, Lut, Requantize, Reshape, Transpose

POINTWISE = (Lut, Clamp, Requantize)


def merge_movement(graph: Graph) -> Graph:
    """Transposes and reshapes in a row become one or none; one that moves only axes of size 1 is a reshape; one that stands
    before a function of single elements goes behind it if that lets it meet another."""
    while True:
        merged = _sweep(graph)
        if merged is graph:
            return graph
        graph = merged.without_dead_ops()


def _sweep(graph: Graph) -> Graph:
    for op in graph.ops:
        changed = _merged(graph, op)
        if changed is not None:
            return changed
    return graph


def _merged(graph: Graph, op: Op) -> Graph | None:
    """The graph after one improvement at this op, or None."""
    if isinstance(op, (Transpose, Reshape)):
        if op.x.shape == op.y.shape and (isinstance(op, Reshape) or op.order == tuple(range(len(op.order)))):
            return _bypass(graph, op, op.x)
        if isinstance(op, Transpose) and _moves_only_units(op.x.shape, op.order):
            return _swap(graph, op, Reshape(x=op.x, y=op.y, source=op.source))
        before = graph.producers.get(op.x)
        if isinstance(op, Reshape) and isinstance(before, Reshape):
            return _swap(graph, op, dataclasses.replace(op, x=before.x))
        if isinstance(op, Transpose) and isinstance(before, Transpose):
            order = tuple(before.order[a] for a in op.order)
            return _swap(graph, op, dataclasses.replace(op, x=before.x, order=order))
        if isinstance(before, POINTWISE):
            return _before_pointwise(graph, before, op)
    return None


def _before_pointwise(graph: Graph, pointwise: Op, move: Transpose | Reshape) -> Graph | None:
    """move(f(move(x))) is f(move(move(x))): done where the two moves are of one kind, and f has no other user."""
    inner: Value = pointwise.operands[0]
    first = graph.producers.get(inner)
    if type(first) is not type(move) or graph.only_user(pointwise.results[0]) is not move:
        return None
    moved = Value(f"{move.y.name}_moved", dataclasses.replace(inner.type, shape=move.y.shape))
    early = dataclasses.replace(move, x=inner, y=moved)
    late = dataclasses.replace(pointwise, x=moved, y=move.y)  # type: ignore[call-arg]  # pointwise ops have x and y
    ops = [
        new for op in graph.ops for new in ((early, late) if op is move else () if op is pointwise else (op,))
    ]
    return graph.replace(ops=tuple(ops))


def _moves_only_units(shape: Shape, order: tuple[int, ...]) -> bool:
    real = [axis for axis in order if shape[axis] != 1]
    return real == sorted(real)


def _swap(graph: Graph, old: Op, new: Op) -> Graph:
    return graph.replace(ops=tuple(new if op is old else op for op in graph.ops))


def _bypass(graph: Graph, op: Op, instead: Value) -> Graph | None:
    """The graph without an op that changes nothing; None where an input or constant would become an output."""
    result = op.results[0]
    if graph.is_output(result) and (instead not in graph.producers or graph.is_output(instead)):
        return None
    if graph.is_output(result):  # the output keeps its name
        without = graph.replace(ops=tuple(o for o in graph.ops if o is not op))
        return without.substitute({instead: result})
    return graph.replace(ops=tuple(o for o in graph.ops if o is not op)).substitute({result: instead})
