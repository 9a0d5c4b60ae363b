# SPDX-License-Identifier: Apache-2.0
"""Rewrites tensors that are filled part by part (`y[:, t] = h` in a loop) as concatenations."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import argument_of, aten, call, calls, replace, shape_of

PUTS = (aten.select_scatter.default, aten.slice_scatter.default)
Part = tuple[int, Node]
"""Start index along the axis, and the call that writes there."""


def concatenate_adjacent_stores(module: GraphModule) -> None:
    """Replaces writes that fill a tensor completely, unread in between, by one concatenation."""
    for node in reversed(calls(module.graph, PUTS)):
        parts = _filling_writes(node) if node.users else []
        if parts:
            rows = [written_value_with_axis(part, node) for _, part in parts]
            replace(node, call(node, aten.cat.default, rows, axis_of_put(node)))
    for node in reversed(calls(module.graph, PUTS)):
        if not node.users:
            module.graph.erase_node(node)


def _filling_writes(last: Node) -> list[Part]:
    """Writes that fill a tensor, sorted along its axis; empty if they leave gaps."""
    size, dim = shape_of(last)[axis_of_put(last)], axis_of_put(last)
    missing, parts = set(range(size)), []
    node = last
    while axis_of_put(node) == dim:
        indices = places_of_put(node, size)
        if not missing.issuperset(indices) or list(indices) != list(range(indices.start, indices.stop)):
            return []
        missing.difference_update(indices)
        parts.append((indices.start, node))
        base = argument_of(node, 0)
        if not missing or base.target not in PUTS or len(base.users) > 1:
            break
        node = base
    return sorted(parts, key=lambda part: part[0]) if not missing and len(parts) > 1 else []


def axis_of_put(node: Node) -> int:
    """Returns the axis along which a call writes."""
    return int(argument_of(node, 2, 0)) % len(shape_of(node))


def places_of_put(node: Node, size: int) -> range:
    """Returns the indices that a call writes."""
    if node.target is aten.select_scatter.default:
        return range(size)[argument_of(node, 3) :][:1]
    return range(size)[slice(*(argument_of(node, i) for i in (3, 4, 5)))]


def written_value_with_axis(node: Node, before: Node) -> Node:
    """Returns the written value with the axis of the write."""
    source: Node = argument_of(node, 1)
    if node.target is not aten.select_scatter.default:
        return source
    dim, shape = axis_of_put(node), shape_of(source)
    return call(before, aten.reshape.default, source, [*shape[:dim], 1, *shape[dim:]])
