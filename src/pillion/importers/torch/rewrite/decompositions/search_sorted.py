# SPDX-License-Identifier: Apache-2.0
"""Decomposes scatters at computed indices and searches in sorted bounds into comparisons and selections."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import argument_of, aten, is_constant, shape_of
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

MOST = 32
"""Maximum scattered elements along an axis; each is a selection of its own."""


def _matches_index(x: Tensor, dim: int, indices: Tensor) -> Tensor:
    """Whether the index of a slice equals the scatter's index."""
    numbers = torch.arange(x.shape[dim]).reshape([-1 if i == dim % x.dim() else 1 for i in range(x.dim())])
    return indices == numbers


def _scatter_elements(x: Tensor, dim: int, index: Tensor, source: Tensor | float) -> Tensor:
    """Writes elements in order; the last write wins."""
    for i in range(index.shape[dim]):
        new = source.narrow(dim, i, 1) if isinstance(source, Tensor) else source
        x = torch.where(_matches_index(x, dim, index.narrow(dim, i, 1)), new, x)
    return x


def _scatter_add_elements(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    for i in range(index.shape[dim]):
        is_there = _matches_index(x, dim, index.narrow(dim, i, 1)).to(x.dtype)
        x = x + is_there * source.narrow(dim, i, 1)
    return x


def _are_few_indices(node: Node) -> bool:
    """Whether few indices are computed and cover the other axes completely."""
    x, index = shape_of(node.args[0]), shape_of(node.args[2])  # type: ignore[arg-type]  # tensors
    if not x or is_constant(node.args[2]):
        return False
    dim = int(node.args[1]) % len(x)  # type: ignore[arg-type]  # a number
    sources: Any = [a for a in node.args[3:] if isinstance(a, Node)]
    fits = all(shape_of(source) == index for source in sources)
    return fits and index[dim] <= MOST and all(x[i] == index[i] for i in range(len(x)) if i != dim)


def _bucketize(x: Tensor, bounds: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    """Counts the bounds below each number."""
    wide = x.unsqueeze(-1)
    return (wide >= bounds if right else wide > bounds).sum(-1)


def _search_sorted(bounds: Tensor, x: Tensor, *, right: bool = False, side: Any = None, **_: Any) -> Tensor:
    wide = bounds if bounds.dim() == 1 else bounds.unsqueeze(-2)
    return _bucketize(x, wide, right=right or side == "right")


decompose_by(_bucketize, aten.bucketize.Tensor)
decompose_by(_scatter_elements, aten.scatter.src, aten.scatter.value, when=_are_few_indices)
decompose_by(_scatter_add_elements, aten.scatter_add.default, when=_are_few_indices)
decompose_by(
    _search_sorted,
    aten.searchsorted.Tensor,
    when=lambda node: node.kwargs.get("sorter") is None and argument_of(node, 5) is None,
)
