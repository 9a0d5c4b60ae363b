# SPDX-License-Identifier: Apache-2.0
"""Undoes a partition, or a device's rewrites on the core. These replace unsupported ops at the cost of precision or
cycles, so an op whose replacement stays on the core is restored."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import Scan, Segment
from pillion.partition.partition import CoreCycles, Placement


def inline_segments(graph: Graph) -> Graph:
    """Returns the graph with segments replaced by their ops. The segments' arithmetic is lost, so the caller
    sets one."""
    ops: list[Op] = []
    for op in graph.ops:
        ops.extend(_ops_on_outer_values(op) if isinstance(op, Segment) else (op,))
    return graph.replace(ops=tuple(ops))


def _ops_on_outer_values(op: Segment) -> tuple[Op, ...]:
    """Returns the ops of a segment on the outer values of its boundary."""
    op.require_open()
    borders = zip((*op.body.inputs, *op.body.outputs), (*op.xs, *op.ys), strict=True)
    return op.body.substitute({inner: outer for inner, outer in borders if inner is not outer}).ops


def restore_original_ops(original: Graph, rewritten: Graph, placed: Placement, core: CoreCycles) -> Placement:
    """Restores each original op whose replacement is entirely on the core."""
    unchanged, on_core = set(rewritten.ops), set(placed.graph.ops)
    chains = {op: _replacement_ops(op, original, rewritten) for op in original.ops if op not in unchanged}
    chains = {op: chain for op, chain in chains.items() if chain and on_core.issuperset(chain)}
    if not chains:
        return placed
    last_ops = {chain[-1]: op for op, chain in chains.items()}
    gone = {replacement for chain in chains.values() for replacement in chain} - last_ops.keys()
    ops = tuple(last_ops.get(op, op) for op in placed.graph.ops if op not in gone)
    return placed.with_core_ops(placed.graph.replace(ops=ops), core)


def _replacement_ops(op: Op, original: Graph, rewritten: Graph) -> list[Op]:
    """Returns the ops that compute an original op's result, in order; empty if others read values in between,
    or if the op is a loop, whose steps have entries of their own."""
    if isinstance(op, Scan) or len(op.results) != 1:
        return []
    known = set(original.values.values())
    makers: set[Op] = set()
    waiting = list(op.results)
    while waiting:
        maker = rewritten.producers.get(waiting.pop())
        if maker is not None and maker not in makers:
            makers.add(maker)
            waiting += [value for value in maker.activations if value not in known]
    chain = [member for member in rewritten.ops if member in makers]
    inner = {value for member in chain for value in member.results} - set(op.results)
    is_closed = all(user in makers for value in inner for user in rewritten.users.get(value, []))
    return chain if is_closed else []
