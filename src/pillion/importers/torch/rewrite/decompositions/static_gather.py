# SPDX-License-Identifier: Apache-2.0
"""Gathers elements at constant indices as concatenated slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pillion.errors import PillionError

MOST_PIECES = 512
"""Maximum slices of one gather; each is an operand of a concatenation."""


def gather_static(x: Tensor, dim: int, places: Sequence[int]) -> Tensor:
    """Gathers elements at constant indices along an axis, as `index_select` does."""
    runs = list(_index_runs(places))
    if len(runs) > MOST_PIECES:
        raise PillionError(
            "elements are taken in an order without a rhythm",
            rule=f"along an axis, elements are taken in at most {MOST_PIECES} runs of equal steps",
            here=f"{len(places)} of {x.shape[dim]} elements in {len(runs)} runs",
            help="a smaller image, or F.interpolate to a size that is a multiple of the image's",
        )
    pieces = [_gather_run(x, dim, *run) for run in runs]
    return torch.cat(pieces, dim) if len(pieces) > 1 else pieces[0]


def strided_diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Returns a diagonal of two axes as the last axis: a strided slice of the flattened matrix."""
    first, second = dim1 % x.dim(), dim2 % x.dim()
    remaining = [axis for axis in range(x.dim()) if axis not in (first, second)]
    rows, columns = x.shape[first], x.shape[second]
    flat = x.permute(*remaining, first, second).reshape(
        *(x.shape[axis] for axis in remaining), rows * columns
    )
    start = offset if offset >= 0 else -offset * columns
    count = min(rows + min(offset, 0), columns - max(offset, 0))
    end = start + (count - 1) * (columns + 1) + 1
    return torch.ops.aten.slice.Tensor(flat, flat.dim() - 1, start, end, columns + 1)


def _index_runs(indices: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yields first index, step and length of each run of equal steps."""
    first = 0
    while first < len(indices):
        last = min(first + 1, len(indices) - 1)
        step = indices[last] - indices[first]
        while last + 1 < len(indices) and indices[last + 1] - indices[last] == step:
            last += 1
        if last - first == 1 and abs(step) > 1:
            last, step = (first, 0)  # two elements that lie apart are no run: the second may begin one
        yield indices[first], step, last - first + 1
        first = last + 1


def _gather_run(x: Tensor, dim: int, first: int, step: int, count: int) -> Tensor:
    if step == 0:
        element = x.narrow(dim, first, 1)
        return torch.cat([element] * count, dim) if count > 1 else element
    low = min(first, first + (count - 1) * step)
    span = abs(step) * (count - 1) + 1
    piece = torch.ops.aten.slice.Tensor(x, dim, low, low + span, abs(step))
    return piece.flip([dim % x.dim()]) if step < 0 else piece
