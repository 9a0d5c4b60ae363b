# SPDX-License-Identifier: Apache-2.0
"""Numbers that are laid out anew: turned, along diagonals, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.nodes import aten, named_argument, shape_of


def _turned(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """By quarters of a turn."""
    first, second = dims
    turns = {
        0: lambda: x,
        1: lambda: x.flip(second).transpose(first, second),
        2: lambda: x.flip(first, second),
        3: lambda: x.flip(first).transpose(first, second),
    }
    return turns[k % 4]()


def _along_the_diagonal(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Each row between zeros: number i of n lies at i (n + 1) of n n."""
    size = x.shape[-1]
    spread = F.pad(x.unsqueeze(-1), (0, size)).reshape(*x.shape[:-1], size * (size + 1))
    return spread[..., : size * size].reshape(*x.shape, size)


def _is_plain(node: Node) -> bool:
    """Whether it is the main diagonal of the last two axes."""
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
    """Numbers at places of the flat tensor."""
    places, values = index.reshape(-1), source.reshape(-1)
    flat = x.reshape(-1)
    put = flat.index_add(0, places, values) if accumulate else flat.index_copy(0, places, values)
    return put.reshape(x.shape)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.block_diag.default: _in_blocks,
    aten.diag_embed.default: _along_the_diagonal,
    aten.put.default: _put,
    aten.rot90.default: _turned,
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {aten.diag_embed.default: _is_plain}
