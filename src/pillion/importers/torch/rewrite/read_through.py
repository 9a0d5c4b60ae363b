# SPDX-License-Identifier: Apache-2.0
"""What is read of a tensor in which a part was replaced, or of several that are joined, is read where it comes from.

Heads of detectors are decoded in place (`y[..., :2] = …`, then `y[..., 2:4] = …y[..., 2:4]…`): read from all of `y`, numbers below one would have the
steps of the pixels that were written beside them."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import argument, aten, call, calls, replace, shape_of
from pillion.importers.torch.rewrite.filled import PUTS, axis_of_put, places_of_put, put_rows


def read_through(module: GraphModule) -> None:
    """Lets slices read what was there before a write elsewhere, what was written, or the one of several joined tensors that they lie in."""
    for node in calls(module.graph, [aten.slice.Tensor]):
        if node.users and (new := _source(node)) is not None:
            replace(node, new)
    for node in reversed(calls(module.graph, [*PUTS, aten.cat.default])):
        if not node.users:
            module.graph.erase_node(node)


def _source(node: Node) -> Node | None:
    """The same elements, read nearer to where they are made; None where nothing is nearer."""
    read: Any = argument(node, 0)
    axis = int(argument(node, 1, 0)) % len(shape_of(node))
    places = range(shape_of(read)[axis])[_bounds(node)]
    base: Node = read
    nearest: Node | None = None
    while places:
        if base.target in PUTS and axis_of_put(base) == axis:
            written = places_of_put(base, shape_of(base)[axis])
            if places == written:
                return put_rows(base, node)
            if not set(places).isdisjoint(written):
                break
            base = nearest = argument(base, 0)
        elif base.target is aten.cat.default and int(argument(base, 1, 0)) % len(shape_of(base)) == axis:
            found = _part(base, axis, places)
            if found is None:
                break
            (nearest, places), base = found, found[0]
        else:
            break
    if nearest is None:
        return None
    if len(places) == shape_of(nearest)[axis]:
        return nearest
    return call(node, aten.slice.Tensor, nearest, axis, places.start, places[-1] + 1, places.step)


def _bounds(node: Node) -> slice:
    start, end, step = (argument(node, i) for i in (2, 3, 4))
    return slice(start, end, 1 if step is None else step)


def _part(joined: Node, axis: int, places: range) -> tuple[Node, range] | None:
    """The one operand of a concatenation in which some places lie, and these places in it."""
    begin = 0
    operands: Any = argument(joined, 0)
    for operand in operands:
        end = begin + shape_of(operand)[axis]
        if begin <= places[0] and places[-1] < end:
            return operand, range(places.start - begin, places.stop - begin, places.step)
        begin = end
    return None
