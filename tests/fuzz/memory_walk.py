# SPDX-License-Identifier: Apache-2.0
"""A second opinion on memory plans: who owns every byte of the arena and of the states, op after op."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.lower import CProgram
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.sliding_buffers import sliding_buffers_of
from pillion.ops import Reshape

NOBODY, SCRATCH = -1, -2


class Arena:
    """Each byte belongs to the value that was written there last. A reshape is another name of its operand. States lie behind the arena
    here."""

    def __init__(self, program: CProgram) -> None:
        self.plan = program.memory
        self.owner: NDArray[np.int64] = np.full(
            self.plan.arena_bytes + self.plan.state_bytes, NOBODY, np.int64
        )
        self.number: dict[Value, int] = {}

    def place(self, value: Value) -> slice:
        spot, size = self.plan.location(value), value.type.size_bytes
        assert spot.offset % 16 == 0, value
        assert spot.offset + size <= (
            self.plan.arena_bytes if spot.area == "arena" else self.plan.state_bytes
        ), value
        start = spot.offset if spot.area == "arena" else self.plan.arena_bytes + spot.offset
        return slice(start, start + size)

    def write(self, value: Value) -> None:
        self.number.setdefault(value, len(self.number))
        self.owner[self.place(value)] = self.number[value]

    def rename(self, value: Value, operand: Value) -> None:
        assert self.place(value) == self.place(operand), f"{value} does not lie where {operand} lies"
        self.number[value] = self.number[operand]

    def join(self, op: Op) -> None:
        """Rows that are kept lie in front of the new ones already, and what is kept of both moves to the front."""
        (y,), (first, *new) = op.results, op.activations
        assert self.place(first).start == self.place(y).start, f"{first} does not lie where {y} begins"
        for value in op.activations:
            assert self.holds(value), f"{value} is lost before {op.name}"
        for value in new:
            behind = self.place(first).stop
            is_there = self.place(value) == slice(behind, self.place(y).stop)
            assert is_there or apart(self.place(value), self.place(y)), f"{value} lies across {y}"
        self.write(y)

    def holds(self, value: Value) -> bool:
        return bool((self.owner[self.place(value)] == self.number[value]).all())


def check_plan(program: CProgram) -> None:
    """Every operand and every output is whole when it is read; scratch and results lie apart from what is still read."""
    arena = Arena(program)
    for value in program.graph.sources:
        arena.write(value)
    joined = {op for buffer in sliding_buffers_of(program.graph) for op in (buffer.join, buffer.keep)}
    for step in program.steps:
        op, kernel = step.choice.op, step.choice.kernel
        if op in joined:
            arena.join(op)
        else:
            _run(arena, op, kernel.in_place(op), kernel.scratch_bytes(op))
    for value in program.graph.outputs:
        assert arena.holds(value), f"output {value} was overwritten"
        assert program.memory.location(value).area == "arena", f"output {value} lies among the states"
    for state in program.graph.states:
        assert arena.holds(state.after), f"state {state.name} was overwritten"
        assert arena.place(state.after) == arena.place(state.before), (
            f"state {state.name} is not made in its place"
        )


def _run(arena: Arena, op: Op, in_place: tuple[Value, ...], scratch_bytes: int) -> None:
    scratch = arena.plan.scratch_offsets.get(op)
    if scratch is not None:
        work = slice(scratch, scratch + scratch_bytes)
        assert work.stop <= arena.plan.arena_bytes, f"scratch of {op.name} ends outside the arena"
        assert all(apart(work, arena.place(r)) for r in op.results), (
            f"scratch of {op.name} lies on its result"
        )
        arena.owner[work] = SCRATCH
    if isinstance(op, Reshape) and not op.x.is_constant:
        assert arena.holds(op.x), f"{op.x} is lost before {op.name}"
        return arena.rename(op.y, op.x)
    for value in op.activations:
        assert arena.holds(value), f"{value} is lost before {op.name}"
    for result in op.results:
        allowed = {arena.place(v).start for v in in_place if not v.is_constant}
        for value in op.activations:
            assert apart(arena.place(value), arena.place(result)) or arena.place(value).start in allowed, (
                op.name
            )
        if arena.place(result).start in allowed:
            same = arena.place(result).start
            others = [v for v in op.activations if arena.place(v).start != same]
            assert all(apart(arena.place(v), arena.place(result)) for v in others), op.name
        arena.write(result)
    return None


def apart(a: slice, b: slice) -> bool:
    return bool(a.stop <= b.start or b.stop <= a.start)
