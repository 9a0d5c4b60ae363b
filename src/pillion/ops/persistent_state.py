# SPDX-License-Identifier: Apache-2.0
"""Makes the carried values of loops persistent: each run continues where the last one ended."""

from __future__ import annotations

import dataclasses

from pillion.errors import PillionError
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ops.scan import Scan


def with_persistent_states(graph: Graph) -> Graph:
    """Turns the carried values of loops that begin with a constant into states, which the constant initializes."""
    names = UniqueNames(graph.values)
    converted = [_loop_with_states(op, names) if isinstance(op, Scan) else (op, ()) for op in graph.ops]
    states = tuple(state for _, new_states in converted for state in new_states)
    if not states:
        raise PillionError(
            f"`{graph.name}` has nothing to remember between runs",
            rule="states of recurrent layers that begin with zeros or other constants live on",
            here=f"{sum(isinstance(op, Scan) for op in graph.ops)} recurrent layers",
            help="leave --stateful out; states that are inputs and outputs of the model are kept by the caller",
        )
    return graph.replace(ops=tuple(op for op, _ in converted), states=(*graph.states, *states))


def _loop_with_states(op: Scan, names: UniqueNames) -> tuple[Op, tuple[State, ...]]:
    """Returns a loop that begins with states, and the states."""
    if op.reverse and any(v.is_constant for v in op.initial):
        raise PillionError(
            f"`{op.name}` reads its sequence from the end",
            rule="a state that lives on goes from one run to the next, forwards in time",
            here=op.source or op.name,
            help="bidirectional=False, or leave --stateful out",
        )
    pairs = [(first, last) for first, last in zip(op.initial, op.last, strict=True) if first.is_constant]
    states = tuple(
        State(last.name, first.like(names.fresh(f"{last.name}_before")), last, first.constant)
        for first, last in pairs
    )
    begins = {s.name: s.before for s in states}
    initial = tuple(begins.get(last.name, v) for v, last in zip(op.initial, op.last, strict=True))
    return dataclasses.replace(op, initial=initial), states
