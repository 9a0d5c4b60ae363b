# SPDX-License-Identifier: Apache-2.0
"""Inputs that are delivered row by row: which inputs allow it, and which ops run before the first row."""

from __future__ import annotations

from pillion.errors import PillionError, require_one_of
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Quantize
from pillion.ops.region import why_not_in_rows


def find_rows_input(graph: Graph, wanted: bool | str = True) -> Value:
    """Returns the input that is delivered row by row: the named one, or the largest possible; raises if there is
    none."""
    if isinstance(wanted, str):
        require_one_of("--rows-of", wanted, [value.name for value in graph.inputs])
    named = [value for value in graph.inputs if wanted in (True, value.name)]
    reasons = {value: why_not_by_rows(graph, value) for value in named}
    able = [value for value, why in reasons.items() if not why]
    if able:
        return max(able, key=lambda value: value.type.size_bytes)
    raise PillionError(
        f"`{graph.name}` cannot be handed {'its input' if len(named) == 1 else 'one of its inputs'} row by row",
        rule="the ops that read the input make their rows one after another, each from a few rows",
        here="; ".join(f"{value.name}: {why}" for value, why in reasons.items()) or "it has no input",
        help="--io-layout nhwc, with which pictures come as lines; or leave --rows-in out",
    )


def why_not_by_rows(graph: Graph, value: Value) -> str:
    """Explains why an input cannot be delivered row by row; empty if it can."""
    if value in graph.sinks:
        return "all of it is kept for later"
    readers = _readers_through_quantize(graph, value)
    wrong = ((op, why) for op in readers if (why := why_not_in_rows(op)))
    return next((f"{op.kind} `{op.name}`: {why}" for op, why in wrong), "" if readers else "nothing reads it")


def _readers_through_quantize(graph: Graph, value: Value) -> list[Op]:
    """Returns the ops that read a value; looks through a quantize op to its readers."""
    users = graph.users.get(value, [])
    later = [
        reader
        for op in users
        if isinstance(op, Quantize)
        for reader in _readers_through_quantize(graph, op.y)
    ]
    return [*users, *later]


def with_rows_last(graph: Graph, fed: Value) -> Graph:
    """Reorders a graph: ops that do not depend on the rows of an input run before the ops that do."""
    readers = [i for i, op in enumerate(graph.ops) if fed in op.activations]
    if not readers:
        return graph
    dependent = {fed}
    for op in graph.ops:
        dependent.update(op.results if dependent & set(op.activations) else ())
    within = graph.ops[readers[0] : readers[-1]]
    early = [op for op in within if not dependent & set(op.results)]
    late = [op for op in within if dependent & set(op.results)]
    if not early:
        return graph
    return graph.replace(ops=(*graph.ops[: readers[0]], *early, *late, *graph.ops[readers[-1] :]))
