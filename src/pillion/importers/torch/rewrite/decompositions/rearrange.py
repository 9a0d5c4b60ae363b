# SPDX-License-Identifier: Apache-2.0
"""Decomposes diagonal embeddings, block diagonals and `put`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, named_argument, shape_of


def _along_the_diagonal(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Pads each element with a row of zeros: element i of n lands at i (n + 1) of n²."""
    size = x.shape[-1]
    spread = F.pad(x.unsqueeze(-1), (0, size)).reshape(*x.shape[:-1], size * (size + 1))
    return spread[..., : size * size].reshape(*x.shape, size)


def _is_plain(node: Node) -> bool:
    """Whether it is the main diagonal of the last per_image_axis axes."""
    rank = len(shape_of(node))
    axes = [named_argument(node, name) % rank for name in ("dim1", "dim2")]
    return not named_argument(node, "offset") and axes == [rank - 2, rank - 1]


def _in_blocks(tensors: Sequence[Tensor]) -> Tensor:
    matrices = [t.reshape(-1, t.shape[-1]) if t.dim() else t.reshape(1, 1) for t in tensors]
    width, at, rows = sum(m.shape[1] for m in matrices), 0, []
    for matrix in matrices:
        rows.append(F.pad(matrix, (at, width - at - matrix.shape[1])))
        at += matrix.shape[1]
    return torch.cat(rows)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes values at indices of the flattened tensor."""
    places, values = index.reshape(-1), source.reshape(-1)
    flat = x.reshape(-1)
    put = flat.index_add(0, places, values) if accumulate else flat.index_copy(0, places, values)
    return put.reshape(x.shape)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.block_diag.default: _in_blocks,
    aten.diag_embed.default: _along_the_diagonal,
    aten.put.default: _put,
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {aten.diag_embed.default: _is_plain}
