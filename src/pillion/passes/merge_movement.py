# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Sequence

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Shape, Value
from pillion.ops import Clamp, Lut, Requantize, Reshape, Transpose

POINTWISE = (Lut, Clamp, Requantize)

Place = tuple[int, ...]
"""The position of an op in running order; replacements of an op share its first numbers."""


def merge_movement(graph: Graph) -> Graph:
    """Merges successive transposes and reshapes; turns a transpose that only moves axes of size 1 into a
    reshape; moves one past an elementwise function if it then meets another."""
    return _Movement(graph).run()


class _Movement:
    """The ops of a graph while they change. A work list holds the ops to look at, in running order; a change
    adds its neighbours, so the work is linear in the number of changes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph.without_dead_ops()
        self.places: dict[Op, Place] = {}
        self.makers: dict[Value, Op] = {}
        self.users: dict[Value, dict[Op, None]] = {}
        self.instead: dict[Value, Value] = {}
        """Removed values → their replacements, for readers that are rebuilt at the end."""
        self.waiting: list[tuple[Place, int, Op]] = []
        self.looks = 0
        for number, op in enumerate(self.graph.ops):
            self.add(op, (number,))

    def run(self) -> Graph:
        changes = 0
        while self.waiting:
            place, _, op = heapq.heappop(self.waiting)
            if op in self.places:
                changes += self.improve_op(op, place)
        if not changes:
            return self.graph
        ops = sorted(self.places, key=self.places.__getitem__)
        return self.graph.replace(ops=tuple(op.substitute(self.current_operands(op)) for op in ops))

    def improve_op(self, op: Op, position: Place) -> bool:
        """Makes one improvement at this op; returns False if there is none."""
        if not isinstance(op, (Transpose, Reshape)):
            return False
        x = self.now(op.x)
        if x.shape == op.y.shape and (isinstance(op, Reshape) or op.order == tuple(range(len(op.order)))):
            return self.remove_identity(op, x)
        better = _compose_moves(op, x, self.makers.get(x))
        if better is not None:
            self.exchange([op], [(better, position)])
            return True
        return self.merge_across_pointwise(op, x, position)

    def merge_across_pointwise(self, move: Transpose | Reshape, x: Value, position: Place) -> bool:
        """Turns move(f(move(x))) into f(move(move(x))) if both moves are of one kind and f has no other
        reader."""
        pointwise = self.makers.get(x)
        if not isinstance(pointwise, POINTWISE) or len(self.users[x]) > 1 or self.graph.is_output(x):
            return False
        inner = self.now(pointwise.operands[0])
        if type(self.makers.get(inner)) is not type(move):
            return False
        moved = Value(f"{move.y.name}_moved", dataclasses.replace(inner.type, shape=move.y.shape))
        early = dataclasses.replace(move, x=inner, y=moved)
        late = dataclasses.replace(pointwise, x=moved, y=move.y)
        self.exchange([move, pointwise], [(early, (*position, 0)), (late, (*position, 1))])
        return True

    def remove_identity(self, op: Transpose | Reshape, x: Value) -> bool:
        """Removes an identity, unless an input or constant would become an output."""
        if not self.graph.is_output(op.y):
            self.redirect_readers(op.y, x)
            self.exchange([op], [])
            return True
        maker = self.makers.get(x)
        if maker is None or self.graph.is_output(x):
            return False
        renamed = maker.substitute({x: op.y})  # the output keeps its name
        place = self.places[maker]
        self.redirect_readers(x, op.y)
        self.exchange([op, maker], [(renamed, place)])
        return True

    def exchange(self, old: Sequence[Op], new: Sequence[tuple[Op, Place]]) -> None:
        """Replaces ops by others that make the same results or results without readers."""
        for op in old:
            del self.places[op]
            for value in op.results:
                del self.makers[value]
        for op, place in new:
            self.add(op, place)
        for op in old:
            self.remove_reader(op)

    def add(self, op: Op, place: Place) -> None:
        self.places[op] = place
        for value in map(self.now, op.operands):
            self.users.setdefault(value, {})[op] = None
        self.enqueue_op(op)
        for value in op.results:
            self.makers[value] = op
            self.enqueue_affected_ops(value)

    def remove_reader(self, gone: Op) -> None:
        """Removes an op as a reader of its operands, and every op that only it needed."""
        leaving = [gone]
        while leaving:
            op = leaving.pop()
            for value in dict.fromkeys(map(self.now, op.operands)):
                del self.users[value][op]
                if len(self.users[value]) == 1:
                    self.enqueue_affected_ops(value)
                maker = self.makers.get(value)
                if maker is not None and not any(map(self.is_needed, maker.results)):
                    del self.places[maker]
                    for result in maker.results:
                        del self.makers[result]
                    leaving.append(maker)

    def is_needed(self, value: Value) -> bool:
        return bool(self.users.get(value)) or self.graph.is_output(value)

    def redirect_readers(self, gone: Value, value: Value) -> None:
        """Redirects all readers of `gone` to `value`."""
        self.instead[gone] = value
        self.users.setdefault(value, {}).update(self.users.pop(gone, {}))
        self.enqueue_affected_ops(value)

    def now(self, value: Value) -> Value:
        """Returns the current replacement of a value."""
        while value in self.instead:
            value = self.instead[value]
        return value

    def current_operands(self, op: Op) -> dict[Value, Value]:
        return {v: self.now(v) for v in op.operands if v in self.instead}

    def enqueue_affected_ops(self, value: Value) -> None:
        """Puts the ops that a change of `value` may concern on the work list."""
        for user in self.users.get(value, ()):
            self.enqueue_op(user)
            if isinstance(user, POINTWISE):
                for behind in self.users.get(user.results[0], ()):
                    self.enqueue_op(behind)

    def enqueue_op(self, op: Op) -> None:
        if isinstance(op, (Transpose, Reshape)) and op in self.places:
            self.looks += 1
            heapq.heappush(self.waiting, (self.places[op], self.looks, op))


def _compose_moves(op: Transpose | Reshape, x: Value, before: Op | None) -> Op | None:
    """Composes two successive moves into one; None if that is impossible."""
    match op, before:
        case Transpose(), _ if _moves_only_unit_axes(x.shape, op.order):
            return Reshape(x=x, y=op.y, source=op.source)
        case Reshape(), Reshape():
            return dataclasses.replace(op, x=before.x)
        case Transpose(), Transpose():
            return dataclasses.replace(op, x=before.x, order=tuple(before.order[a] for a in op.order))
    return None


def _moves_only_unit_axes(shape: Shape, order: tuple[int, ...]) -> bool:
    real = [axis for axis in order if shape[axis] != 1]
    return real == sorted(real)
