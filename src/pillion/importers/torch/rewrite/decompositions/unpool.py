# SPDX-License-Identifier: Apache-2.0
"""Decomposes max pools with indices, and max unpools."""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, named_argument, per_axis, shape_of
from pillion.importers.torch.rewrite.decompositions.building_blocks import window_count
from pillion.importers.torch.rewrite.decompositions.pools import (
    Ints,
    dilated_max,
    interleave_along_axis,
    is_dilated,
    reads_values_only,
)
from pillion.importers.torch.rewrite.decompositions.static_gather import gather_static
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

POOLS = (aten.max_pool2d_with_indices.default,)


def max_pool_indices(
    x: Tensor, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Tensor:
    """Returns the index of each window's largest pixel in the flattened image, the first of equal ones. Taps
    outside the image repeat the window's nearest tap inside."""
    kernels, steps = per_axis(kernel, 2), per_axis(stride if stride not in ((), []) else kernel, 2)
    sides, apart, sizes = per_axis(padding, 2), per_axis(dilation, 2), x.shape[-2:]
    taps = [
        [[position for tap in range(k) if 0 <= (position := i * s - p + tap * d) < size] for i in range(n)]
        for size, k, s, p, d in zip(sizes, kernels, steps, sides, apart, strict=True)
        for n in [window_count(size, k, s, p, d, ceil_mode)]
    ]
    seen = [
        [
            [min(max(i * s - p + tap * d, inside[0]), inside[-1]) for i, inside in enumerate(axis)]
            for tap in range(k)
        ]
        for axis, k, s, p, d in zip(taps, kernels, steps, sides, apart, strict=True)
    ]
    bands = [gather_static(x, x.dim() - 2, rows) for rows in seen[0]]
    pixels = [gather_static(band, x.dim() - 1, columns) for band in bands for columns in seen[1]]
    tap = torch.stack(pixels, x.dim()).argmax(x.dim())
    down, right = torch.div(tap, kernels[1], rounding_mode="floor"), tap % kernels[1]
    starts = [torch.arange(len(axis)) * s - p for axis, s, p in zip(taps, steps, sides, strict=True)]
    row = starts[0].reshape(-1, 1) + (down if apart[0] == 1 else down * apart[0])
    column = starts[1] + (right if apart[1] == 1 else right * apart[1])
    if apart != [1, 1]:
        row = _clamp_to_image(row, starts[0].reshape(-1, 1), kernels[0], apart[0], sizes[0])
        column = _clamp_to_image(column, starts[1], kernels[1], apart[1], sizes[1])
    elif any(sides) or ceil_mode:
        row, column = row.clamp(0, sizes[0] - 1), column.clamp(0, sizes[1] - 1)
    return row * sizes[1] + column


def _clamp_to_image(index: Tensor, start: Tensor, kernel: int, apart: int, size: int) -> Tensor:
    """Clamps indices to the first and the last tap inside the image of windows that begin at `start`."""
    first = torch.where(start < 0, start % apart, start)
    last = torch.minimum(start + (kernel - 1) * apart, size - 1 - (size - 1 - start) % apart)
    return torch.minimum(torch.maximum(index, first), last)


def max_unpool(x: Tensor, places: Tensor, output_size: Sequence[int]) -> Tensor:
    """Places pixels at the indices that a pool found, and zeros elsewhere: one selection per position in the
    window."""
    (h, w), (height, width) = x.shape[-2:], output_size
    tall, wide = height // h, width // w
    corners = (torch.arange(h) * (tall * width)).reshape(-1, 1) + torch.arange(w) * wide
    bands = [
        interleave_along_axis(
            [torch.where(places == corners + (i * width + j), x, 0.0) for j in range(wide)], x.dim() - 1
        )
        for i in range(tall)
    ]
    y = interleave_along_axis(bands, x.dim() - 2)
    more = (width - w * wide, height - h * tall)
    return F.pad(y, (0, more[0], 0, more[1])) if any(more) else y


def inverts_pool(node: Node) -> bool:
    """Whether the indices come from a pool with adjacent windows over an image as wide as the result."""
    indices: Any = node.args[1]
    pool = indices.args[0] if indices.target is getitem else None
    if not isinstance(pool, Node) or pool.target not in POOLS:
        return False
    sizes, after = shape_of(node.args[0])[-2:], shape_of(node)[-2:]  # type: ignore[arg-type]  # a tensor
    kernel = per_axis(named_argument(pool, "kernel_size"), 2)
    step = named_argument(pool, "stride")
    regular = kernel == (per_axis(step, 2) if step else kernel) and not any(
        per_axis(named_argument(pool, "padding"), 2)
    )
    regular = regular and per_axis(named_argument(pool, "dilation"), 2) == [1, 1]
    fits = [a // b for a, b in zip(after, sizes, strict=True)] == kernel
    return regular and fits and shape_of(pool.args[0])[-1] == after[1]  # type: ignore[arg-type]  # a tensor


def _with_indices(x: Tensor, *window: Any) -> tuple[Tensor, Tensor]:
    has_gaps = len(window) > 3 and per_axis(window[3], 2) != [1, 1]
    pool = dilated_max if has_gaps else aten.max_pool2d.default
    return pool(x, *window), max_pool_indices(x, *window)


decompose_by(
    _with_indices,
    aten.max_pool2d_with_indices.default,
    when=lambda node: is_dilated(node) or not reads_values_only(node),
)
decompose_by(max_unpool, aten.max_unpool2d.default, when=inverts_pool)
