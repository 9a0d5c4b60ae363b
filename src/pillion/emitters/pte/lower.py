# SPDX-License-Identifier: Apache-2.0
"""A graph made ready for the format: kernel calls in order, and a place in the arena for all that they touch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pillion.emitters.pte.node import Delegate, KernelCall, Settings, Temp, View
from pillion.emitters.pte.table import steps
from pillion.ir.graph import Graph, rewrite, want_computed_outputs
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory import ALIGNMENT, MemoryPlan, OpMemory, plan_memory
from pillion.ops import Reshape, Slice
from pillion.ops.movement import Movement


@dataclass(frozen=True)
class Lowered:
    """All that the writer needs: calls in running order, and the memory plan."""

    graph: Graph
    steps: tuple[KernelCall | Delegate, ...]
    memory: MemoryPlan
    temps: Mapping[Temp, int]
    """Offsets in the arena."""

    def offset(self, of: Value | Temp) -> int:
        """Gives the place of a value or a temp in the arena."""
        return self.temps[of] if isinstance(of, Temp) else self.memory.offsets[of]


def lower(graph: Graph, settings: Settings) -> Lowered:
    """Makes the calls and the memory plan of a graph."""
    graph = without_copies(graph)
    want_computed_outputs(graph)
    per_op = {op: steps(op, settings) for op in graph.ops}
    temps = {op: _temps(made) for op, made in per_op.items()}
    needs = {op: OpMemory(sum(_aligned(t.nbytes) for t in found)) for op, found in temps.items()}
    memory = plan_memory(graph, needs)
    offsets: dict[Temp, int] = {}
    for op, found in temps.items():
        at = memory.scratch_offsets.get(op, 0)
        for one in found:
            offsets[one] = at if one.nbytes else 0
            at += _aligned(one.nbytes)
    return Lowered(graph, tuple(step for made in per_op.values() for step in made), memory, offsets)


def without_copies(graph: Graph) -> Graph:
    """Turns movements that leave every byte where it is into reshapes, which cost nothing; reshaped constants are constants."""
    constants: dict[Value, Value] = {}

    def rule(_: Graph, op: Op) -> Sequence[Op] | None:
        op = op.substitute(constants)
        if isinstance(op, Reshape) and op.x.is_constant:
            constants[op.y] = dataclasses.replace(op.y, data=op.x.constant.reshape(op.y.shape))
            return [] if not graph.is_output(op.y) else [_copied(constants[op.y], op)]
        if isinstance(op, Movement) and op.is_idle and op.operands[0].is_constant:
            return [_copied(op.operands[0], op)]
        if isinstance(op, Movement) and op.is_idle:
            return [Reshape(x=op.operands[0], y=op.results[0], source=op.source)]
        return [op]

    return rewrite(graph, rule)


def _copied(x: Value, op: Op) -> Op:
    """A copy of a constant that is an output: as a view of it, nobody would write it."""
    rank = x.type.rank
    return Slice(x=x, y=op.results[0], begin=(0,) * rank, step=(1,) * rank, source=op.source)


def _temps(made: Sequence[KernelCall | Delegate]) -> list[Temp]:
    """The temps of an op in order of their first use."""
    views: list[View] = [view for step in made for view in step.views]
    return list(dict.fromkeys(view.of for view in views if isinstance(view.of, Temp)))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
