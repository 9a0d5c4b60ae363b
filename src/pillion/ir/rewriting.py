# SPDX-License-Identifier: Apache-2.0
"""Rewrites of graphs: one sweep over the ops in running order, in which a rule replaces ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import Value

Pass = Callable[[Graph], Graph]
Replacement = Sequence[Op] | None
"""The ops that replace an op; None if it stays."""


class RewriteSweep:
    """The state of a sweep, for rules: the original graph, and the rewritten part so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.same: dict[Value, Value] = {}
        """Results of removed ops → the values that their readers read instead."""
        self.producers: dict[Value, Op] = {}
        """The ops that compute each value so far."""
        self.shared: set[Value] = set()
        """Values that have more readers than in the graph as it was."""

    @cached_property
    def names(self) -> UniqueNames:
        """The names that are taken in the graph."""
        return UniqueNames(self.graph.values)

    def read_instead(self, op: Op, *values: Value) -> list[Op]:
        """Removes an op whose results equal other values."""
        self.same.update(zip(op.results, values, strict=True))
        self.shared.update(values)
        return []


Rule = Callable[[Any, RewriteSweep], Replacement]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """Visits the ops once in running order and replaces those for which `rule` returns ops. Ops without readers
    are removed. Returns the same graph if nothing changes."""
    sweep = RewriteSweep(graph)
    ops: list[Op] = []
    for old in graph.ops:
        op = old.substitute(sweep.same)
        replacement = rule(op, sweep)
        for new in [op] if replacement is None else replacement:
            ops.append(new)
            sweep.producers.update((result, new) for result in new.results)
    changed = graph if tuple(ops) == graph.ops else graph.with_ops(ops, sweep.same)
    return changed.without_dead_ops()


def rewrite_pass(*kinds: type[Op], also_in_loops: bool = False) -> Callable[[Rule], Pass]:
    """Turns a rule for some kinds of ops into a pass of its name and documentation. The pipeline applies passes to
    the bodies of loops; `also_in_loops` is for passes that run outside of it."""

    def as_pass(rule: Rule) -> Pass:
        def on_op(op: Op, sweep: RewriteSweep) -> Replacement:
            if isinstance(op, kinds):
                return rule(op, sweep)
            body = op.attributes.get("body") if also_in_loops and op.kind == "scan" else None
            inner = run(body) if body is not None else None
            return None if inner is body else [dataclasses.replace(op, body=inner)]  # type: ignore[call-arg]  # of a loop

        @wraps(rule)
        def run(graph: Graph) -> Graph:
            return rewrite(graph, on_op)

        return run

    return as_pass
