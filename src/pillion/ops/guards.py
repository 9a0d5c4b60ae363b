# SPDX-License-Identifier: Apache-2.0
"""Guards: the conditions under which the result of an op is read. An op is skipped if a selection by one flag
(`torch.cond`) discards everything that follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.topological_order import topological_order
from pillion.ir.types import Value
from pillion.ops.compare_select import Where
from pillion.ops.movement import Reshape

LEAST_WORK = 256
"""The least number of multiply-accumulates and elements of a branch that is skipped."""


@dataclass(frozen=True)
class Guard:
    """A flag, and the value of it with which an op runs."""

    flag: Value
    value: bool


Guards = Mapping[Op, tuple[Guard, ...]]
"""The guards of each op that has some, the outermost first."""


def branch_guards(graph: Graph, always: Collection[Op] = ()) -> Guards:
    """Returns the guards of ops. Ops in `always`, and ops that an output or a state depends on, have none."""
    selections = _selections_by_flag(graph)
    guards: dict[Op, tuple[Guard, ...]] = {}
    for flag, chosen in reversed(selections.items()):  # the last selection is the outermost
        for value in (True, False):
            branch = list(_only_for(graph, chosen, value, always))
            if sum(map(_work, branch)) >= LEAST_WORK:
                guards.update((op, (*guards.get(op, ()), Guard(flag, value))) for op in branch)
    return guards


def _work(op: Op) -> int:
    """Returns the multiply-accumulates of an op and the elements that it reads and makes."""
    return op.macs + sum(v.type.elements for v in (*op.activations, *op.results))


def selecting_ops(guards: Guards, graph: Graph) -> set[Op]:
    """Returns the selections between branches that are skipped."""
    flags = {guard.flag for of_op in guards.values() for guard in of_op}
    return {op for flag, ops in _selections_by_flag(graph).items() if flag in flags for op in ops}


def _selections_by_flag(graph: Graph) -> dict[Value, list[Where]]:
    """Returns the selections by one flag, by the value that holds the flag, in the order of their last ones."""
    found: dict[Value, list[Where]] = {}
    for op in graph.ops:
        if isinstance(op, Where) and op.condition.type.elements == 1 and not op.condition.is_constant:
            flag = _held_by(op.condition, graph)
            found[flag] = [*found.pop(flag, ()), op]
    return found


def _held_by(flag: Value, graph: Graph) -> Value:
    """Returns the value that holds a flag's bytes: a reshape moves nothing."""
    while isinstance(maker := graph.producers.get(flag), Reshape):
        flag = maker.x
    return flag


def _only_for(graph: Graph, selections: Iterable[Where], value: bool, always: Collection[Op]) -> Iterator[Op]:
    """Yields, the last first, the ops with results that only these selections read, as their choice for one value of
    the flag."""
    read: dict[Op, Value] = {op: op.a if value else op.b for op in selections}
    discarded: dict[Op, set[Value]] = {op: {op.condition, op.b if value else op.a} for op in selections}
    branch: set[Op] = set()
    for op in reversed(graph.ops):
        is_only = op not in always and all(
            not graph.is_output(y)
            and all(
                user in branch or (y is read.get(user) and y not in discarded[user])
                for user in graph.users.get(y, ())
            )
            for y in op.results
        )
        if is_only:
            branch.add(op)
            yield op


def order_branches(graph: Graph) -> Graph:
    """Moves ops behind the flags that guard them, and otherwise keeps their order."""
    guards = branch_guards(graph)
    if not guards:
        return graph
    flags = {op: [guard.flag for guard in of_op] for op, of_op in guards.items()}
    return graph.replace(ops=tuple(topological_order(graph.ops, graph.sources, flags)))
