# SPDX-License-Identifier: Apache-2.0
"""Lowers a graph to kernel calls in order, with an arena offset for all their tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pillion.emitters.pte.node import Delegate, KernelCall, NodeView, PteSettings, Temp
from pillion.emitters.pte.table import steps
from pillion.errors import PillionError
from pillion.ir.graph import Graph, require_computed_outputs
from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite
from pillion.ir.types import Value
from pillion.memory import ALIGNMENT, MemoryLocation, MemoryPlan, Needs, OpMemory, plan_memory, states_to_copy
from pillion.ops import Reshape
from pillion.ops.movement import Movement, computes_in_16_bits, copy_op
from pillion.ops.state_io import copy_new_states


@dataclass(frozen=True)
class LoweredProgram:
    """The input of the writer: calls in execution order, and the memory plan."""

    graph: Graph
    steps: tuple[KernelCall | Delegate, ...]
    memory: MemoryPlan
    temps: Mapping[Temp, int]
    """Offsets in the arena."""

    def spot(self, of: Value | Temp) -> MemoryLocation:
        """Returns the place of a value or a temp, in the arena or among the states."""
        return MemoryLocation(self.temps[of]) if isinstance(of, Temp) else self.memory.location(of)


def refuse_16_bit_layers(graph: Graph) -> None:
    """Raises if an op other than a move computes in 16 bits."""
    for op in graph.ops:
        if computes_in_16_bits(op):
            raise PillionError(
                f"{op.kind} `{op.name}` has no exact ExecuTorch form",
                rule="layers of .pte files are int8",
                here=", ".join(map(repr, op.activations)),
                help="--kernels pillion, or -o FOLDER",
            )


def lower(graph: Graph, settings: PteSettings) -> LoweredProgram:
    """Returns the calls and the memory plan of a graph. Copies are added where a state's next value cannot be
    computed in place."""
    refuse_16_bit_layers(graph)
    graph = copies_as_reshapes(graph)
    require_computed_outputs(graph)
    graph = copy_new_states(graph)
    calls = {op: steps(op, settings) for op in graph.ops}
    left = states_to_copy(graph, _memory_needs(calls)) if graph.states else ()
    if left:
        graph = copy_new_states(graph, left)
        calls |= {op: steps(op, settings) for op in graph.ops if op not in calls}
    memory = plan_memory(graph, _memory_needs(calls))
    offsets: dict[Temp, int] = {}
    for op, op_calls in calls.items():
        at = memory.scratch_offsets.get(op, 0)
        for temporary in _temporary_buffers(op_calls):
            offsets[temporary] = at if temporary.nbytes else 0
            at += _align_size(temporary.nbytes)
    return LoweredProgram(graph, tuple(step for op in graph.ops for step in calls[op]), memory, offsets)


def _memory_needs(calls: Mapping[Op, Sequence[KernelCall | Delegate]]) -> Needs:
    return {
        op: OpMemory(sum(_align_size(t.nbytes) for t in _temporary_buffers(op_calls)))
        for op, op_calls in calls.items()
    }


def copies_as_reshapes(graph: Graph) -> Graph:
    """Returns the graph with moves that keep every byte in place as reshapes, which cost nothing; reshaped
    constants are constants. A constant that is an output is copied: a view of it would never be written."""
    constants: dict[Value, Value] = {}

    def rule(op: Op, _: RewriteSweep) -> Replacement:
        op = op.substitute(constants)
        if isinstance(op, Reshape) and op.x.is_constant:
            constants[op.y] = dataclasses.replace(op.y, data=op.x.constant.reshape(op.y.shape))
            return [] if not graph.is_output(op.y) else [copy_op(constants[op.y], op.y, op.source)]
        if isinstance(op, Movement) and op.is_identity and op.operands[0].is_constant:
            return [copy_op(op.operands[0], op.results[0], op.source)]
        if isinstance(op, Movement) and op.is_identity:
            return [Reshape(x=op.operands[0], y=op.results[0], source=op.source)]
        return [op]

    return rewrite(graph, rule)


def _temporary_buffers(calls: Sequence[KernelCall | Delegate]) -> list[Temp]:
    """Returns the temps of an op in order of their first use."""
    views: list[NodeView] = [view for step in calls for view in step.views]
    return list(dict.fromkeys(view.of for view in views if isinstance(view.of, Temp)))


def _align_size(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
