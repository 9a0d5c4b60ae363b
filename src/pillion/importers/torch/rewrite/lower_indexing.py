# SPDX-License-Identifier: Apache-2.0
"""Lowers reads and writes by index to slices, concatenations and `index_select`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.concat_stores import (
    PUTS,
    axis_of_put,
    places_of_put,
    written_value_with_axis,
)

MOST_PUT = 32
"""Maximum slices written at computed indices; each is compared with all indices of the axis."""
LONGEST_SUM = 256
"""Longest axis of a running sum, which is a product with a triangle of ones."""


def gather_last(x: Tensor, places: Tensor) -> Tensor:
    """Gathers elements of the last axis, with separate indices for each row."""
    return torch.gather(x, -1, places)


def reduce_bags(weight: Tensor, words: Tensor, mean: bool) -> Tensor:
    """Sums or averages rows of a table over the last axis of the indices."""
    rows = torch.nn.functional.embedding(words, weight)
    return rows.mean(-2) if mean else rows.sum(-2)


def lower_indices(module: GraphModule) -> None:
    """Lowers all reads and writes by index."""
    fx.lower_calls(module.graph, LOWERINGS)


def _unsupported_call_error(node: Node, what: str, here: object, help: str) -> PillionError:
    return PillionError(
        f"{node.target} cannot be compiled as it is called",
        rule=what,
        here=f"{here}  ({fx.source_line(node)})",
        help=help,
    )


# --- taken by index


def _lower_index(node: Node) -> Node | None:
    """Lowers `x[:, [0, 2]]`: any indices on one axis, constant ones on several."""
    x: Any = node.args[0]
    indices: Any = list(node.args[1])  # type: ignore[arg-type]  # the schema says a list
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) == 1 and fx.fake_result(indices[axes[0]]).dtype not in (torch.bool, torch.uint8):
        return _gather_one_axis(node, x, axes[0], indices[axes[0]])
    tensors = [fx.constant_of(index) for index in indices if index is not None]
    if any(h is None for h in tensors):
        raise _unsupported_call_error(
            node,
            "axes are indexed by numbers, which may be computed, or all by constants; masks are constants",
            f"{len(axes)} axes, with a mask",
            "torch.where chooses by a mask; index one axis after another",
        )
    return _gather_several_axes(node, x, indices, [h for h in tensors if h is not None])


def _gather_one_axis(node: Node, x: Node, axis: int, index: Node) -> Node:
    tensor, size = fx.constant_of(index), fx.shape_of(x)[axis]
    if tensor is not None:
        taken = _gather_constant_indices(
            node, x, axis, torch.where(tensor < 0, tensor + size, tensor).reshape(-1)
        )
    else:
        flat = fx.call(node, aten.reshape.default, index, [-1]) if len(fx.shape_of(index)) != 1 else index
        taken = fx.call(node, aten.index_select.default, x, axis, flat)
    return fx.call(node, aten.reshape.default, taken, list(fx.shape_of(node)))


def _flat_positions(
    shape: Sequence[int], indices: Sequence[Node | None], tensors: Sequence[Tensor]
) -> tuple[list[int], Tensor]:
    """Returns the indexed axes, and the flat index of each element within them."""
    parts: list[Tensor] = []
    axes: list[int] = []
    axis, rest = 0, iter(tensors)
    for index in indices:
        tensor = None if index is None else next(rest)
        wide = tensor.dim() if tensor is not None and tensor.dtype in (torch.bool, torch.uint8) else 1
        if tensor is not None:
            parts += (
                [tensor]
                if tensor.dtype not in (torch.bool, torch.uint8)
                else list(tensor.nonzero(as_tuple=True))
            )
            axes += range(axis, axis + wide)
        axis += wide
    numbers = torch.arange(math.prod(shape[a] for a in axes)).reshape([shape[a] for a in axes])
    return axes, numbers[tuple(parts)]


def _gather_several_axes(
    node: Node, x: Node, indices: Sequence[Node | None], tensors: Sequence[Tensor]
) -> Node:
    shape = fx.shape_of(x)
    axes, positions = _flat_positions(shape, indices, tensors)
    merged, first = _merge_indexed_axes(node, x, axes)
    taken = _gather_constant_indices(node, merged, first, positions.reshape(-1))
    return fx.call(node, aten.reshape.default, taken, list(fx.shape_of(node)))


def _merge_indexed_axes(node: Node, x: Node, axes: Sequence[int]) -> tuple[Node, int]:
    """Merges the indexed axes."""
    order, first = order_of_axes(len(fx.shape_of(x)), axes)
    sizes, last = [fx.shape_of(x)[axis] for axis in order], first + len(axes)
    joined = [*sizes[:first], math.prod(sizes[first:last]), *sizes[last:]]
    return fx.call(node, aten.reshape.default, fx.insert_permutation(node, x, order), joined), first


def order_of_axes(rank: int, axes: Sequence[int]) -> tuple[list[int], int]:
    """Returns the axis order with adjacent indexed axes, and the first indexed axis. As in PyTorch, indexed axes move
    to the front if they are not adjacent."""
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    others = [axis for axis in range(rank) if axis not in axes]
    return [*others[:first], *axes, *others[first:]], first


def _lower_index_select(node: Node) -> Node | None:
    """Lowers constant indices to slices, and a scalar index to a vector."""
    x, dim, index = (fx.argument_of(node, i) for i in range(3))
    tensor = fx.constant_of(index)
    if not fx.shape_of(x):
        return x
    if tensor is not None:
        return _gather_constant_indices(node, x, dim, tensor.reshape(-1))
    if fx.shape_of(index):
        return None
    return fx.call(node, aten.index_select.default, x, dim, fx.call(node, aten.reshape.default, index, [1]))


def _gather_constant_indices(node: Node, x: Node, axis: int, indices: Tensor) -> Node:
    """Gathers constant indices, by one strided slice if possible."""
    progression = _slice_of_indices(indices)
    if progression is not None:
        return fx.call(node, aten.slice.Tensor, x, axis, *progression)
    return fx.call(node, aten.index_select.default, x, axis, fx.constant(node, indices, "places"))


def _slice_of_indices(indices: Tensor) -> tuple[int, int, int] | None:
    """Returns the start, end and step of the slice with these indices; None if no slice has them."""
    numbers = indices.reshape(-1).tolist()
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if not numbers or step < 1 or numbers != list(range(numbers[0], numbers[-1] + 1, step)):
        return None
    return numbers[0], numbers[-1] + 1, step


def _lower_gather(node: Node) -> Node:
    """Moves the gathered axis to the end and trims all other axes to the indices' shape."""
    x, dim, index = (fx.argument_of(node, i) for i in range(3))
    rank = len(fx.shape_of(x))
    if rank == 0:
        return x
    for axis, (have, want) in enumerate(zip(fx.shape_of(x), fx.shape_of(index), strict=True)):
        if axis != dim % rank and have != want:
            x = fx.call(node, aten.slice.Tensor, x, axis, 0, want)
    order = [axis for axis in range(rank) if axis != dim % rank] + [dim % rank]
    taken = fx.call(node, gather_last, *(fx.insert_permutation(node, n, order) for n in (x, index)))
    return fx.insert_permutation(node, taken, fx.inverse_permutation(order))


def _lower_unfold(node: Node) -> Node:
    """Lowers `x.unfold(dim, size, step)` to a gather of overlapping windows."""
    x, dim, size, step = (fx.argument_of(node, i) for i in range(4))
    shape = list(fx.shape_of(x))
    dim %= max(len(shape), 1)
    count = (shape[dim] - size) // step + 1
    positions = (torch.arange(count)[:, None] * step + torch.arange(size)).reshape(-1)
    taken = _gather_constant_indices(node, x, dim, positions)
    split = fx.call(node, aten.reshape.default, taken, [*shape[:dim], count, size, *shape[dim + 1 :]])
    order = [axis for axis in range(len(shape) + 1) if axis != dim + 1] + [dim + 1]
    return fx.call(node, aten.permute.default, split, order)


# --- put by index


def _lower_put_slices(node: Node) -> Node:
    """Lowers a scatter into a slice or an element of an axis."""
    x, axis = fx.argument_of(node, 0), axis_of_put(node)
    places = places_of_put(node, fx.shape_of(x)[axis])
    return _replace_slices(node, x, written_value_with_axis(node, node), axis, places)


def _replace_slices(node: Node, x: Node, source: Node, dim: int, indices: Sequence[int]) -> Node:
    """Replaces slices of an axis: by a concatenation if they are adjacent, otherwise by a gather."""
    size = fx.shape_of(x)[dim]
    if not indices:
        return x
    first, last = indices[0], indices[-1]
    if list(indices) == list(range(first, last + 1)):
        parts = [fx.call(node, aten.slice.Tensor, x, dim, 0, first)] if first else []
        parts.append(source)
        parts += [fx.call(node, aten.slice.Tensor, x, dim, last + 1, size)] if last + 1 < size else []
        return fx.call(node, aten.cat.default, parts, dim) if len(parts) > 1 else source
    order = torch.arange(size)
    order[torch.tensor(list(indices))] = size + torch.arange(len(indices))
    both = fx.call(node, aten.cat.default, [x, source], dim)
    return _gather_constant_indices(node, both, dim, order)


def _lower_index_put(node: Node) -> Node:
    """Writes at constant indices: gathers from the concatenation of old and new elements."""
    x, indices, values = (fx.argument_of(node, i) for i in range(3))
    tensors = [fx.constant_of(index) for index in indices if index is not None]
    if any(h is None for h in tensors) or fx.argument_of(node, 3):
        raise _unsupported_call_error(
            node,
            f"elements are put by constants, by one mask the same everywhere, or at {MOST_PUT} places that are computed",
            "added to those that are there"
            if fx.argument_of(node, 3)
            else "more places, several masks, or several values",
            "torch.where chooses by a mask; put several parts one after another",
        )
    shape = fx.shape_of(x)
    axes, positions = _flat_positions(shape, indices, [h for h in tensors if h is not None])
    joined, first = _merge_indexed_axes(node, x, axes)
    sizes = list(fx.shape_of(joined))
    others = [size for axis, size in enumerate(sizes) if axis != first]
    flat = fx.call(node, aten.reshape.default, values, [*others[:first], positions.numel(), *others[first:]])
    order = torch.arange(sizes[first])
    order[positions.reshape(-1)] = sizes[first] + torch.arange(positions.numel())
    both = fx.call(node, aten.cat.default, [joined, flat], first)
    taken = _gather_constant_indices(node, both, first, order)
    split_order, _ = order_of_axes(len(shape), axes)
    split = fx.call(node, aten.reshape.default, taken, [shape[axis] for axis in split_order])
    return fx.insert_permutation(node, split, fx.inverse_permutation(split_order))


# --- running sums


def _lower_cumsum(node: Node) -> Node | None:
    """Multiplies by a triangle of ones: exact sums, rounded once."""
    x, dim = (fx.argument_of(node, i) for i in range(2))
    shape = fx.shape_of(x)
    if not fx.fake_result(x).is_floating_point():
        return None
    if not shape:
        return x
    axis = dim % len(shape)
    size = shape[axis]
    if size > LONGEST_SUM:
        raise _unsupported_call_error(
            node,
            f"running sums are over at most {LONGEST_SUM} elements",
            size,
            "sum parts, and add what came before",
        )
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    triangle = fx.constant(node, torch.ones(size, size).tril(), "triangle")
    summed = fx.call(node, aten.linear.default, fx.insert_permutation(node, x, order), triangle)
    return fx.insert_permutation(node, summed, fx.inverse_permutation(order))


def _fuse_embedding_reduction(node: Node) -> Node | None:
    """Fuses an embedding and the sum or mean over its words."""
    rows, dims = fx.argument_of(node, 0), fx.argument_of(node, 1)
    if rows.target is not aten.embedding.default or len(rows.users) > 1 or len(fx.shape_of(rows)) < 3:
        return None
    weight, words = rows.args[:2]
    axis = len(fx.shape_of(words)) - 1
    is_last = [int(dim) % (axis + 2) for dim in dims or ()] == [axis]
    if not is_last or not fx.is_constant(weight):
        return None
    summed = fx.call(node, reduce_bags, weight, words, node.target is aten.mean.dim)
    return (
        fx.call(node, aten.reshape.default, summed, list(fx.shape_of(node)))
        if fx.argument_of(node, 2)
        else summed
    )


LOWERINGS: dict[Any, fx.CallLowering] = {
    aten.sum.dim_IntList: _fuse_embedding_reduction,
    aten.mean.dim: _fuse_embedding_reduction,
    aten.index.Tensor: _lower_index,
    aten.index_select.default: _lower_index_select,
    aten.gather.default: _lower_gather,
    aten.unfold.default: _lower_unfold,
    **dict.fromkeys(PUTS, _lower_put_slices),
    aten.index_put.default: _lower_index_put,
    aten.cumsum.default: _lower_cumsum,
}
"""Lowerings by operator."""
