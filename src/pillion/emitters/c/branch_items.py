# SPDX-License-Identifier: Apache-2.0
"""Branches: ops that run under the same conditions become the body of an `if`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pillion.emitters.c.actions import ProgramItem, RunBranch
from pillion.emitters.c.select_and_plan import KernelPlan
from pillion.ir.op import Op
from pillion.ops import Region
from pillion.ops.guards import Guard, Guards, branch_guards

Items = list[ProgramItem]
"""The items of an op."""


def guards_of_plan(plan: KernelPlan, moving: Iterable[Op]) -> Guards:
    """Returns the guards of a plan's ops that run behind what makes the flag. Ops that keep something between runs always run:
    those in `moving`, and those with sums or rows from outside. Nothing is skipped while the NPU or copies run in parallel with the core."""
    is_streamed = plan.memory.several is not None and bool(plan.memory.several.streamed)
    if plan.in_steps or is_streamed:
        return {}
    fed = (op for op in plan.graph.ops if isinstance(op, Region) and op.fed_value is not None)
    always = {*(op_sums.op for op_sums in plan.sums), *fed, *moving}
    place = {y: number for number, op in enumerate(plan.graph.ops) for y in op.results}
    guards = {
        op: tuple(guard for guard in of_op if place.get(guard.flag, -1) < place[op.results[0]])
        for op, of_op in branch_guards(plan.graph, always).items()
    }
    return {op: of_op for op, of_op in guards.items() if of_op}


def with_branches(plan: KernelPlan, items: Sequence[Items], guards: Guards) -> list[Items]:
    """Returns the items of each op; the first op of a branch has all items of the branch."""
    guarded = [(guards.get(op, ()), of_op) for op, of_op in zip(plan.graph.ops, items, strict=True)]
    return list(_nested(plan, guarded))


def _nested(plan: KernelPlan, items: Sequence[tuple[tuple[Guard, ...], Items]]) -> Iterator[Items]:
    """Yields the items of ops; a branch holds the items of consecutive ops with the same outermost guard."""
    for guard, group in groupby(items, lambda one: one[0][:1]):
        if not guard:
            yield from (of_op for _, of_op in group)
            continue
        inside = [(rest[1:], of_op) for rest, of_op in group]
        body = tuple(item for of_op in _nested(plan, inside) for item in of_op)
        flag = plan.memory.location(guard[0].flag)
        yield [ProgramItem.at(RunBranch(guard[0].flag.name, guard[0].value, body), flag)] if body else []
        yield from ([] for _ in inside[1:])


def without_branches(items: Sequence[ProgramItem]) -> Items:
    """Returns items in which the bodies of all branches always run, for formats without conditions."""
    flat: Items = []
    for item in items:
        flat += without_branches(item.what.body) if isinstance(item.what, RunBranch) else [item]
    return flat
