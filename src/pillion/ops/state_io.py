# SPDX-License-Identifier: Apache-2.0
"""Rewrites of states: unique storage for their new values, and states as inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pillion.ir.graph import Graph, Names
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Value
from pillion.ops.movement import Reshape, Slice


def with_own_ends(graph: Graph, copied: Iterable[State] | None = None) -> Graph:
    """Copies the new values of some states at the end of the graph: the given ones, or all whose value already has
    storage, such as an input, an output or another state. Outputs that show an old state are then copied, too."""
    graph = _with_own_outputs(graph) if copied is None and graph.states else graph
    names = Names(graph.values)
    taken = {_origin(graph, v) for v in graph.outputs}
    ops: list[Op] = []
    states: list[State] = []
    chosen = None if copied is None else set(copied)
    for state in graph.states:
        origin = _origin(graph, state.after)
        is_lent = origin is not state.before and (origin not in graph.producers or origin in taken)
        if is_lent if chosen is None else state in chosen:
            y = Value(names.fresh(f"{state.name}_kept"), state.before.type)
            ops.append(_copy(state.after, y))
            state = dataclasses.replace(state, after=y)
        taken.add(origin)
        states.append(state)
    return graph.replace(ops=(*graph.ops, *ops), states=tuple(states)) if ops else graph


def _with_own_outputs(graph: Graph) -> Graph:
    """Copies old states that are outputs; they are overwritten before outputs are read."""
    names = Names(graph.values)
    before = {state.before for state in graph.states}
    shown = dict.fromkeys(v for v in graph.outputs if _origin(graph, v) in before)
    for value in shown:
        if value in graph.producers:  # the output keeps its name
            seen = Value(names.fresh(f"{value.name}_seen"), value.type)
            graph, y = graph.substitute({value: seen}), value
        else:
            seen, y = value, Value(names.fresh(f"{value.name}_shown"), value.type)
        outputs = tuple(y if v is seen else v for v in graph.outputs)
        graph = graph.replace(ops=(*graph.ops, _copy(seen, y)), outputs=outputs)
    return graph


def _copy(x: Value, y: Value) -> Op:
    rank = x.type.rank
    return Slice(x=x, y=y, begin=(0,) * rank, step=(1,) * rank)


def _origin(graph: Graph, value: Value) -> Value:
    """Returns the value that another one is a reshape of."""
    while (op := graph.producers.get(value)) is not None and isinstance(op, Reshape):
        value = op.operands[0]
    return value


def opened(graph: Graph) -> Graph:
    """Turns states into additional inputs and outputs; each output is the result of an op."""
    return with_own_ends(graph).opened()


def states_as_io(graph: Graph) -> Graph:
    """Turns states into additional inputs `name` and outputs `name_next`."""
    names = Names(graph.values)
    own = with_own_ends(graph)
    renamed = {
        s.after: Value(names.fresh(f"{s.name}_next"), s.after.type)
        for s in own.states
        if s.after in own.producers
    }
    return own.substitute(renamed).opened()
