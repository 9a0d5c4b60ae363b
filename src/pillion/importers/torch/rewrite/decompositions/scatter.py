# SPDX-License-Identifier: Apache-2.0
"""Decomposes gathers and scatters at computed indices: along several axes, with negative indices, or accumulating."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.decompositions.table import decompose_by
from pillion.importers.torch.rewrite.lower_indexing import MOST_PUT, order_of_axes

Indices = Sequence[Tensor | None]
MASKS = (torch.bool, torch.uint8)
MOST_FLAGS = 2**16
"""Maximum comparisons of an accumulating scatter, which are all in memory at once."""
NOWHERE = -1
"""Index of writes outside the tensor, which are dropped."""


def _broadcast_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Broadcasts the values of an `index_put`."""
    values = values.expand(aten.index.Tensor(x, indices).shape)
    result: Tensor = aten.index_put.default(x, indices, values, accumulate)
    return result


def _broadcasts_put(node: Node) -> bool:
    """Whether an `index_put` by numbers broadcasts its values."""
    x, indices, values = (fx.argument_of(node, i) for i in range(3))
    numbers = [None if index is None else fx.fake_result(index) for index in indices]
    if any(n is not None and n.dtype in MASKS for n in numbers):
        return False
    return bool(
        fx.evaluate(node.graph, aten.index.Tensor, (x, indices), {}).shape != fx.fake_result(values).shape
    )


def _indexed_axes(indices: Sequence[Any]) -> list[int]:
    return [axis for axis, index in enumerate(indices) if index is not None]


def _merge_axes(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, int]:
    """Merges the indexed axes into one."""
    order, first = order_of_axes(x.dim(), axes)
    moved = x.permute(order)
    count = math.prod(x.shape[axis] for axis in axes)
    return moved.reshape([*moved.shape[:first], count, *moved.shape[first + len(axes) :]]), first


def _split_merged_axes(joined: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Reverts `_joined`."""
    order, _ = order_of_axes(len(shape), axes)
    return joined.reshape([shape[axis] for axis in order]).permute(fx.inverse_permutation(order))


def _flat_indices(x: Tensor, indices: Indices, *, is_put: bool) -> Tensor:
    """Indices into the merged axis; negative ones count from the end. Reads outside are clamped, writes outside
    are dropped."""
    sizes = [x.shape[axis] for axis in _indexed_axes(indices)]
    present = [index for index in indices if index is not None]
    numbers = [torch.where(n < 0, n + size, n) for n, size in zip(present, sizes, strict=True)]
    if len(sizes) == 1:
        return numbers[0]
    positions, are_inside = torch.zeros((), dtype=torch.int64), torch.ones((), dtype=torch.bool)
    for n, size in zip(numbers, sizes, strict=True):
        positions = positions * size + n.clamp(0, size - 1)
        are_inside = are_inside & (n >= 0) & (n < size)
    return torch.where(are_inside, positions, NOWHERE) if is_put else positions


def gather_by_index(x: Tensor, indices: Indices) -> Tensor:
    """Computes `x[i, j]` for computed indices."""
    joined, first = _merge_axes(x, _indexed_axes(indices))
    positions = _flat_indices(x, indices, is_put=False)
    gathered = joined.index_select(first, positions.reshape(-1))
    return gathered.reshape([*joined.shape[:first], *positions.shape, *joined.shape[first + 1 :]])


def scatter_by_index(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """Computes `x` after `x[i, j] = values` or `x[i, j] += values` for computed indices."""
    axes = _indexed_axes(indices)
    joined, first = _merge_axes(x, axes)
    positions = _flat_indices(x, indices, is_put=True).reshape(-1)
    flat = values.reshape([*joined.shape[:first], len(positions), *joined.shape[first + 1 :]])
    put = (_add_slices if accumulate else _replace_slices)(joined, first, positions, flat)
    return _split_merged_axes(put, x.shape, axes)


def _replace_slices(x: Tensor, axis: int, positions: Tensor, values: Tensor) -> Tensor:
    """Selects a single slice; looks up several slices, the last write per index, in the concatenation of old and
    new ones."""
    size, count = x.shape[axis], len(positions)
    numbers = torch.arange(size)
    if count == 1:
        shape = [size if i == axis else 1 for i in range(x.dim())]
        return torch.where((numbers == positions).reshape(shape), values, x)
    sources = numbers
    for i in range(count):
        sources = torch.where(numbers == positions[i : i + 1], size + i, sources)
    return torch.cat([x, values], axis).index_select(axis, sources)


def _add_slices(x: Tensor, axis: int, positions: Tensor, values: Tensor) -> Tensor:
    """Adds integers one by one; adds real numbers by a product with a one-hot matrix, which rounds once."""
    numbers = torch.arange(x.shape[axis])
    if not x.is_floating_point():
        shape = [-1 if i == axis else 1 for i in range(x.dim())]
        for i in range(len(positions)):
            is_there = (numbers == positions[i : i + 1]).reshape(shape)
            x = x + torch.where(is_there, values.narrow(axis, i, 1), 0)
        return x
    is_there = (numbers.reshape(-1, 1) == positions).to(x.dtype)
    rows = values.movedim(axis, 0)
    sums = is_there @ rows.reshape(len(positions), -1)
    return x + sums.reshape([x.shape[axis], *rows.shape[1:]]).movedim(0, axis)


def _decompose_index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """Dispatches to masks, broadcast values, or indices."""
    if any(index is not None and index.dtype in MASKS for index in indices):
        return _put_by_mask(x, indices, values)
    shape = torch.broadcast_shapes(*(i.shape for i in indices if i is not None))  # type: ignore[no-untyped-call]  # of torch
    axes = _indexed_axes(indices)
    order, first = order_of_axes(x.dim(), axes)
    others = [x.shape[axis] for axis in order if axis not in axes]
    full_shape = [*others[:first], *shape, *others[first:]]
    if list(values.shape) != full_shape:
        return _broadcast_put(x, indices, values, accumulate)
    return scatter_by_index(x, indices, values, accumulate)


def _decompose_put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes values at indices of the flattened tensor."""
    flat, positions, values = (t.reshape(-1) for t in (x, index, source))
    put = flat.index_add(0, positions, values) if accumulate else flat.index_copy(0, positions, values)
    return put.reshape(x.shape)


def _put_by_mask(x: Tensor, indices: Indices, values: Tensor) -> Tensor:
    """Selects values that are equal for all masked elements."""
    axis, mask = next((axis, index) for axis, index in enumerate(indices) if index is not None)
    behind = x.dim() - axis - mask.dim()
    flags = mask.to(torch.bool).reshape([*mask.shape, *[1] * behind])
    lead = [1] * max(1 + behind - values.dim(), 0)
    padded = [*lead, *values.shape]
    wide = values.reshape(
        [*padded[: len(padded) - behind - 1], *[1] * mask.dim(), *padded[len(padded) - behind :]]
    )
    return torch.where(flags, wide, x)


def _is_single_mask(x: Node, indices: Sequence[Any], values: Node) -> bool:
    """Whether the op has one mask, and equal values for all selected elements."""
    (axis, mask), *more = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if more:
        return False
    behind = fx.fake_result(x).dim() - axis - fx.fake_result(mask).dim()
    shape = [1] * (1 + behind) + list(fx.fake_result(values).shape)
    return bool(shape[len(shape) - behind - 1] == 1)


def _is_computed_index_put(node: Node) -> bool:
    """Whether indices are computed, values accumulate, or values are broadcast."""
    x, indices, values, adds = (fx.argument_of(node, i) for i in range(4))
    present = [index for index in indices if index is not None]
    if any(fx.fake_result(index).dtype in MASKS for index in present):
        return not adds and _is_single_mask(x, indices, values)
    if _broadcasts_put(node):
        return True
    if not adds and all(map(fx.is_constant, present)):
        return False
    count = math.prod(torch.broadcast_shapes(*(fx.fake_result(i).shape for i in present)))  # type: ignore[no-untyped-call]  # of torch
    size = math.prod(fx.fake_result(x).shape[axis] for axis in _indexed_axes(indices))
    sums = adds and fx.fake_result(x).is_floating_point()
    return count * size <= MOST_FLAGS if sums else count <= MOST_PUT


def _is_computed_index(node: Node) -> bool:
    """Whether computed indices cover several axes or may be negative."""
    present = [index for index in fx.argument_of(node, 1) if index is not None]
    if any(fx.fake_result(index).dtype in MASKS for index in present) or all(map(fx.is_constant, present)):
        return False
    return len(present) > 1 or not _is_nonnegative_index(present[0])


PLACES = (aten.argmax.default, aten.argmin.default)
PARTS_OF_PLACES = (aten.topk.default, aten.sort.default, aten.sort.stable, aten.max.dim, aten.min.dim)


def _is_nonnegative_index(index: Node) -> bool:
    """Whether an index comes from an operator that returns positions, which are never negative."""
    source: Any = index.args[0] if index.args else None
    return index.target in PLACES or (isinstance(source, Node) and source.target in PARTS_OF_PLACES)


decompose_by(gather_by_index, aten.index.Tensor, when=_is_computed_index)
decompose_by(_decompose_index_put, aten.index_put.default, when=_is_computed_index_put)
decompose_by(_decompose_put, aten.put.default)
