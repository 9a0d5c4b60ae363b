# SPDX-License-Identifier: Apache-2.0
"""Forwards slices of partially written or concatenated tensors to their sources.

Detector heads decode in place (`y[..., :2] = …`, then `y[..., 2:4] = …y[..., 2:4]…`). Read from all of `y`,
values below one would have the scale of pixels."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import argument_of, aten, call, calls, replace, shape_of
from pillion.importers.torch.rewrite.concat_stores import (
    PUTS,
    axis_of_put,
    places_of_put,
    written_value_with_axis,
)


def forward_slices(module: GraphModule) -> None:
    """Redirects slices past unrelated writes, to the written value, or to one operand of a concatenation."""
    for node in calls(module.graph, [aten.slice.Tensor]):
        is_constant = len(node.all_input_nodes) == 1  # computed bounds are refused later
        if node.users and is_constant and (new := _earlier_source(node)) is not None:
            replace(node, new)
    for node in reversed(calls(module.graph, [*PUTS, aten.cat.default])):
        if not node.users:
            module.graph.erase_node(node)


def _earlier_source(node: Node) -> Node | None:
    """Returns the same elements at an earlier node; None if no node holds them."""
    read: Any = argument_of(node, 0)
    axis = int(argument_of(node, 1, 0)) % len(shape_of(node))
    positions = range(shape_of(read)[axis])[slice(*(argument_of(node, i) for i in (2, 3, 4)))]
    base: Node = read
    nearest: Node | None = None
    while positions:
        if base.target in PUTS and axis_of_put(base) == axis:
            written = places_of_put(base, shape_of(base)[axis])
            if positions == written:
                return written_value_with_axis(base, node)
            if not set(positions).isdisjoint(written):
                break
            base = nearest = argument_of(base, 0)
        elif base.target is aten.cat.default and int(argument_of(base, 1, 0)) % len(shape_of(base)) == axis:
            operand = _containing_operand(base, axis, positions)
            if operand is None:
                break
            (nearest, positions), base = operand, operand[0]
        else:
            break
    if nearest is None:
        return None
    if len(positions) == shape_of(nearest)[axis]:
        return nearest
    return call(node, aten.slice.Tensor, nearest, axis, positions.start, positions[-1] + 1, positions.step)


def _containing_operand(joined: Node, axis: int, indices: range) -> tuple[Node, range] | None:
    """Returns the operand of a concatenation that contains all `places`, and their indices in it."""
    begin = 0
    operands: Any = argument_of(joined, 0)
    for operand in operands:
        end = begin + shape_of(operand)[axis]
        if begin <= indices[0] and indices[-1] < end:
            return operand, range(indices.start - begin, indices.stop - begin, indices.step)
        begin = end
    return None
