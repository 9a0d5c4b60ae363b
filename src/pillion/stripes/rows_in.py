# SPDX-License-Identifier: Apache-2.0
"""Inputs that are handed over row by row: which of a graph's can be, and what runs before the first row comes."""

from __future__ import annotations

from pillion.errors import PillionError, one_of
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Quantize
from pillion.ops.region import why_not_in_rows


def want_rows_in(graph: Graph, wanted: bool | str = True) -> Value:
    """Gives the input that is handed over row by row: that of a name or, of those that can be, the largest; raises where there is none."""
    if isinstance(wanted, str):
        one_of("--rows-of", wanted, [value.name for value in graph.inputs])
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
    """Says why an input cannot be handed over row by row; empty if it can."""
    if value in graph.ends:
        return "all of it is kept for later"
    readers = _readers(graph, value)
    wrong = ((op, why) for op in readers if (why := why_not_in_rows(op)))
    return next((f"{op.kind} `{op.name}`: {why}" for op, why in wrong), "" if readers else "nothing reads it")


def _readers(graph: Graph, value: Value) -> list[Op]:
    """The ops that read a value. Numbers are quantized as they lie: what reads them then says whether rows are lines of a picture."""
    users = graph.users.get(value, [])
    later = [reader for op in users if isinstance(op, Quantize) for reader in _readers(graph, op.y)]
    return [*users, *later]


def with_rows_last(graph: Graph, fed: Value) -> Graph:
    """Gives the graph in an order in which all that has nothing to do with the rows of an input, and comes before the last op that reads
    them, runs before the first that does. The same graph if it is in that order."""
    readers = [i for i, op in enumerate(graph.ops) if fed in op.activations]
    if not readers:
        return graph
    made = {fed}
    for op in graph.ops:
        made.update(op.results if made & set(op.activations) else ())
    within = graph.ops[readers[0] : readers[-1]]
    early = [op for op in within if not made & set(op.results)]
    late = [op for op in within if made & set(op.results)]
    if not early:
        return graph
    return graph.replace(ops=(*graph.ops[: readers[0]], *early, *late, *graph.ops[readers[-1] :]))
