# SPDX-License-Identifier: Apache-2.0
"""Where the largest pixels were found, and the way back to there: max pools with places, and what undoes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.nodes import aten, named_argument, shape_of
from pillion.importers.torch.rewrite.forms.pools import (
    Ints,
    dilated_max,
    in_turns,
    is_dilated,
    only_values,
    two,
    windows,
)
from pillion.importers.torch.rewrite.forms.taken import taken

POOLS = (aten.max_pool2d_with_indices.default,)


def found_at(
    x: Tensor, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Tensor:
    """Gives the places of the largest pixels, in an image whose rows lie behind each other: the first one of several that are as
    large. A window that reaches beyond the image sees the pixel at its border again."""
    kernels, steps = two(kernel), two(stride if stride not in ((), []) else kernel)
    sides, apart, sizes = two(padding), two(dilation), x.shape[-2:]
    seen = [
        [
            [min(max(i * s - p + tap * d, 0), size - 1) for i in range(windows(size, k, s, p, d, ceil_mode))]
            for tap in range(k)
        ]
        for size, k, s, p, d in zip(sizes, kernels, steps, sides, apart, strict=True)
    ]
    bands = [taken(x, x.dim() - 2, rows) for rows in seen[0]]
    pixels = [taken(band, x.dim() - 1, columns) for band in bands for columns in seen[1]]
    tap = torch.stack(pixels, x.dim()).argmax(x.dim())
    down, right = torch.div(tap, kernels[1], rounding_mode="floor"), tap % kernels[1]
    starts = [torch.arange(len(axis[0])) * s - p for axis, s, p in zip(seen, steps, sides, strict=True)]
    row = starts[0].reshape(-1, 1) + (down if apart[0] == 1 else down * apart[0])
    column = starts[1] + (right if apart[1] == 1 else right * apart[1])
    if any(sides) or ceil_mode:
        row, column = row.clamp(0, sizes[0] - 1), column.clamp(0, sizes[1] - 1)
    return row * sizes[1] + column


def unpooled(x: Tensor, places: Tensor, output_size: Sequence[int]) -> Tensor:
    """Gives an image with pixels at the places where a pool found them, and 0 elsewhere: for each place in a window, what was found
    there."""
    (h, w), (height, width) = x.shape[-2:], output_size
    tall, wide = height // h, width // w
    corners = (torch.arange(h) * (tall * width)).reshape(-1, 1) + torch.arange(w) * wide
    bands = [
        in_turns([torch.where(places == corners + (i * width + j), x, 0.0) for j in range(wide)], x.dim() - 1)
        for i in range(tall)
    ]
    y = in_turns(bands, x.dim() - 2)
    more = (width - w * wide, height - h * tall)
    return F.pad(y, (0, more[0], 0, more[1])) if any(more) else y


def undoes_a_pool(node: Node) -> bool:
    """Whether the places are those of a pool whose windows lie side by side, of an image as wide as the result."""
    places: Any = node.args[1]
    pool = places.args[0] if places.target is getitem else None
    if not isinstance(pool, Node) or pool.target not in POOLS:
        return False
    sizes, after = shape_of(node.args[0])[-2:], shape_of(node)[-2:]  # type: ignore[arg-type]  # a tensor
    kernel = two(named_argument(pool, "kernel_size"))
    step = named_argument(pool, "stride")
    regular = kernel == (two(step) if step else kernel) and not any(two(named_argument(pool, "padding")))
    regular = regular and two(named_argument(pool, "dilation")) == [1, 1]
    fits = [a // b for a, b in zip(after, sizes, strict=True)] == kernel
    return regular and fits and shape_of(pool.args[0])[-1] == after[1]  # type: ignore[arg-type]  # a tensor


def _with_places(x: Tensor, *window: Any) -> tuple[Tensor, Tensor]:
    has_gaps = len(window) > 3 and two(window[3]) != [1, 1]
    pool = dilated_max if has_gaps else aten.max_pool2d.default
    return pool(x, *window), found_at(x, *window)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _with_places,
    aten.max_unpool2d.default: unpooled,
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    aten.max_pool2d_with_indices.default: lambda node: is_dilated(node) or not only_values(node),
    aten.max_unpool2d.default: undoes_a_pool,
}
