# SPDX-License-Identifier: Apache-2.0
"""Many random programs side by side in one graph, so that one build and one run serve them all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verify import verify_graph


def together(graphs: Sequence[Graph], name: str = "fuzz") -> Graph:
    """One graph of several that have nothing to do with one another. All are of one arithmetic."""
    apart = [_prefixed(graph, f"g{number}_") for number, graph in enumerate(graphs)]
    return verify_graph(
        Graph(
            name,
            tuple(v for graph in apart for v in graph.inputs),
            tuple(op for graph in apart for op in graph.ops),
            tuple(v for graph in apart for v in graph.outputs),
            graphs[0].arithmetic,
        )
    )


def _prefixed(graph: Graph, prefix: str) -> Graph:
    values = {v: dataclasses.replace(v, name=prefix + v.name) for v in _values(graph)}
    return graph.replace(
        inputs=tuple(values[v] for v in graph.inputs),
        ops=tuple(op.substitute(values) for op in graph.ops),
        outputs=tuple(values[v] for v in graph.outputs),
    )


def _values(graph: Graph) -> list[Value]:
    held = (*graph.inputs, *(v for op in graph.ops for v in (*op.operands, *op.results)))
    return list(dict.fromkeys(held))


def part_of(graph: Graph, ops: Sequence[Op], outputs: Sequence[Value]) -> Graph:
    """Some ops of a graph; what they read and do not make becomes an input."""
    results = {r for op in ops for r in op.results}
    ends = tuple(v for v in outputs if v in results)
    kept = graph.replace(ops=tuple(ops), outputs=ends).without_dead_ops()
    made = {r for op in kept.ops for r in op.results}
    read = dict.fromkeys(v for op in kept.ops for v in op.activations if v not in made)
    return verify_graph(kept.replace(inputs=tuple(read)))


def smallest(graph: Graph, is_wrong: Callable[[Graph], bool]) -> Graph:
    """A part of a wrong graph that is wrong, too: up to one op, then without ops at the beginning."""
    for op in graph.ops:
        part = part_of(graph, graph.ops, op.results)
        if is_wrong(part):
            graph = part
            break
    for _ in graph.ops:
        part = part_of(graph, graph.ops[1:], graph.outputs)
        if not part.ops or not is_wrong(part):
            break
        graph = part
    return graph
