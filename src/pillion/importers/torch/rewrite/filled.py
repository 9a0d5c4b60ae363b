# SPDX-License-Identifier: Apache-2.0
"""Tensors that are filled part by part (`y[:, t] = h` in a loop) are the concatenation of the parts."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import argument, aten, call, calls, replace, shape_of

PUTS = (aten.select_scatter.default, aten.slice_scatter.default)
Part = tuple[int, Node]
"""From where on along the axis, and which call puts it there."""


def join_filled(module: GraphModule) -> None:
    """Makes one concatenation of calls that fill a tensor one after the other, where nobody reads it before it is full."""
    for node in reversed(calls(module.graph, PUTS)):
        parts = _parts(node) if node.users else []
        if parts:
            replace(node, _joined(node, parts))
    for node in reversed(calls(module.graph, PUTS)):
        if not node.users:
            module.graph.erase_node(node)


def _parts(last: Node) -> list[Part]:
    """The calls that have filled a tensor, in the order of its axis; none, where they leave something of it."""
    size, dim = shape_of(last)[axis_of_put(last)], axis_of_put(last)
    missing, parts = set(range(size)), []
    node = last
    while axis_of_put(node) == dim:
        places = places_of_put(node, size)
        if not missing.issuperset(places) or list(places) != list(range(places.start, places.stop)):
            return []
        missing.difference_update(places)
        parts.append((places.start, node))
        base = argument(node, 0)
        if not missing or base.target not in PUTS or len(base.users) > 1:
            break
        node = base
    return sorted(parts, key=lambda part: part[0]) if not missing and len(parts) > 1 else []


def axis_of_put(node: Node) -> int:
    """Gives the axis along which a call puts something."""
    return int(argument(node, 2, 0)) % len(shape_of(node))


def places_of_put(node: Node, size: int) -> range:
    """Gives the places along the axis at which a call puts something."""
    if node.target is aten.select_scatter.default:
        return range(size)[argument(node, 3) :][:1]
    return range(size)[slice(*(argument(node, i) for i in (3, 4, 5)))]


def put_rows(node: Node, before: Node) -> Node:
    """Gives what a call puts, with the axis along which it does so."""
    source: Node = argument(node, 1)
    if node.target is not aten.select_scatter.default:
        return source
    dim, shape = axis_of_put(node), shape_of(source)
    return call(before, aten.reshape.default, source, [*shape[:dim], 1, *shape[dim:]])


def _joined(last: Node, parts: list[Part]) -> Node:
    """The parts, one behind the other."""
    rows = [put_rows(node, last) for _, node in parts]
    return call(last, aten.cat.default, rows, axis_of_put(last))
