# SPDX-License-Identifier: Apache-2.0
"""Rewrites of states: unique storage for their new values, and states as inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Value
from pillion.ops.movement import Reshape, copy_op


def copy_new_states(graph: Graph, copied: Iterable[State] | None = None) -> Graph:
    """Copies the new values of some states at the end of the graph: the given ones, or all whose value already has
    storage, such as an input, an output or another state. Outputs that show an old state are then copied, too."""
    graph = _copy_old_state_outputs(graph) if copied is None and graph.states else graph
    names = UniqueNames(graph.values)
    taken = {reshape_origin(graph, v) for v in graph.outputs}
    ops: list[Op] = []
    states: list[State] = []
    chosen = None if copied is None else set(copied)
    for state in graph.states:
        origin = reshape_origin(graph, state.after)
        is_lent = origin is not state.before and (origin not in graph.producers or origin in taken)
        if is_lent if chosen is None else state in chosen:
            y = state.before.like(names.fresh(f"{state.name}_kept"))
            ops.append(copy_op(state.after, y))
            state = dataclasses.replace(state, after=y)
        taken.add(origin)
        states.append(state)
    return graph.replace(ops=(*graph.ops, *ops), states=tuple(states)) if ops else graph


def _copy_old_state_outputs(graph: Graph) -> Graph:
    """Copies old states that are outputs; they are overwritten before outputs are read."""
    names = UniqueNames(graph.values)
    before = {state.before for state in graph.states}
    shown = dict.fromkeys(v for v in graph.outputs if reshape_origin(graph, v) in before)
    for value in shown:
        if value in graph.producers:  # the output keeps its name
            seen = value.like(names.fresh(f"{value.name}_seen"))
            graph, y = graph.substitute({value: seen}), value
        else:
            seen, y = value, value.like(names.fresh(f"{value.name}_shown"))
        outputs = tuple(y if v is seen else v for v in graph.outputs)
        graph = graph.replace(ops=(*graph.ops, copy_op(seen, y)), outputs=outputs)
    return graph


def reshape_origin(graph: Graph, value: Value) -> Value:
    """Returns the value that another one is a reshape of."""
    while (op := graph.producers.get(value)) is not None and isinstance(op, Reshape):
        value = op.operands[0]
    return value


def open_states(graph: Graph) -> Graph:
    """Turns states into additional inputs and outputs; each output is the result of an op."""
    return copy_new_states(graph).with_states_as_io()


def states_as_io(graph: Graph) -> Graph:
    """Turns states into additional inputs `name` and outputs `name_next`."""
    names = UniqueNames(graph.values)
    own = copy_new_states(graph)
    renamed = {
        s.after: s.after.like(names.fresh(f"{s.name}_next")) for s in own.states if s.after in own.producers
    }
    return own.substitute(renamed).with_states_as_io()
