# SPDX-License-Identifier: Apache-2.0
"""Decomposes pools that kernels lack: adaptive, dilated, over volumes, or with a custom divisor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, named_argument, per_axis, shape_of
from pillion.importers.torch.rewrite.decompositions.building_blocks import (
    accept_unbatched,
    over_volumes,
    window_count,
)
from pillion.importers.torch.rewrite.decompositions.static_gather import gather_static
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

Pool = Callable[..., Tensor]
Ints = int | Sequence[int]

MOST_PHASES = 16
"""Maximum kinds of windows of an adaptive pool; with more, rows are pooled before columns."""


@dataclass(frozen=True)
class _Phase:
    """Equal windows of an adaptive pool at regular distances."""

    start: int
    kernel: int
    step: int
    count: int

    @property
    def reach(self) -> int:
        """Number of elements that the windows cover."""
        return (self.count - 1) * self.step + self.kernel


def _adaptive_pool_phases(before: int, after: int) -> list[_Phase]:
    """Groups the windows of an adaptive pool: window i spans ⌊i · before / after⌋ to ⌈(i + 1) · before / after⌉, a
    periodic pattern."""
    count = math.gcd(before, after)
    starts = [i * before // after for i in range(after // count)]
    ends = [-(-(i + 1) * before // after) for i in range(after // count)]
    return [_Phase(s, e - s, before // count, count) for s, e in zip(starts, ends, strict=True)]


def _adaptive_pool_decomposition(pool: Pool) -> Callable[[Tensor, Sequence[int]], Tensor]:
    def decomposed(x: Tensor, output_size: Sequence[int]) -> Tensor:
        (h, w), (rows, columns) = x.shape[-2:], output_size
        tall, wide = _adaptive_pool_phases(h, rows), _adaptive_pool_phases(w, columns)
        if len(tall) * len(wide) <= MOST_PHASES or 1 in (len(tall), len(wide)):
            return _pool_phases(pool, x, tall, wide)
        upright = _pool_phases(pool, x, tall, _adaptive_pool_phases(w, w))
        return _pool_phases(pool, upright, _adaptive_pool_phases(rows, rows), wide)

    return decomposed


def _pool_phases(pool: Pool, x: Tensor, tall: Sequence[_Phase], wide: Sequence[_Phase]) -> Tensor:
    """Pools each kind of window and interleaves the results along both axes."""

    def pooled(row: _Phase, column: _Phase) -> Tensor:
        part = x.narrow(-2, row.start, row.reach).narrow(-1, column.start, column.reach)
        if row.kernel == column.kernel == 1:
            return part[..., :: row.step, :: column.step]
        return pool(part, (row.kernel, column.kernel), (row.step, column.step))

    bands = [interleave_along_axis([pooled(row, column) for column in wide], x.dim() - 1) for row in tall]
    return interleave_along_axis(bands, x.dim() - 2)


def interleave_along_axis(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Interleaves tensors along an axis."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if first.shape[dim] == 1:
        return torch.cat(list(parts), dim)
    shape = list(first.shape)
    shape[dim] *= len(parts)
    return torch.stack(list(parts), dim + 1).reshape(shape)


def _has_unequal_windows(node: Node) -> bool:
    before, after = shape_of(node.args[0])[-2:], named_argument(node, "output_size")  # type: ignore[arg-type]  # a tensor
    return all(after) and any(b % a for b, a in zip(before, after, strict=True))


def reads_values_only(node: Node) -> bool:
    """Whether only the values of a pool are read, not the indices."""
    return all(user.target is getitem and user.args[1] == 0 for user in node.users)


def _without_indices(pool: Pool) -> Callable[..., tuple[Tensor, None]]:
    """Gives the results of an operator whose indices are not read."""
    return lambda *args: (pool(*args), None)


def dilated_max(
    x: Tensor,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Computes a dilated max pool as the maximum of shifted images, rows first. Taps outside the image repeat a
    tap inside the window."""
    steps = per_axis(stride, 2) if stride not in ((), []) else per_axis(kernel_size, 2)
    windows = (per_axis(kernel_size, 2), steps, per_axis(padding, 2), per_axis(dilation, 2))
    for axis, options in enumerate(zip(*windows, strict=True)):
        x = _max_along_axis(x, x.dim() - 2 + axis, *options, ceil_mode)
    return x


def _max_along_axis(
    x: Tensor, dim: int, kernel: int, step: int, border: int, apart: int, ceil_mode: bool
) -> Tensor:
    size = x.shape[dim]
    count = window_count(size, kernel, step, border, apart, ceil_mode)
    seen = [
        [position for tap in range(kernel) if 0 <= (position := i * step - border + tap * apart) < size]
        for i in range(count)
    ]
    largest = gather_static(x, dim, [positions[0] for positions in seen])
    for tap in range(1, kernel):
        shifted = [positions[min(tap, len(positions) - 1)] for positions in seen]
        largest = torch.maximum(largest, gather_static(x, dim, shifted))
    return largest


def is_dilated(node: Node) -> bool:
    """Whether a pool is dilated."""
    return per_axis(named_argument(node, "dilation"), 2) != [1, 1]


@accept_unbatched(4)
def _average_pool_by_convolution(
    x: Tensor,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Sums windows by a depthwise convolution, whose result has its own range, and divides by a constant."""
    kernel, border = per_axis(kernel_size, 2), per_axis(padding, 2)
    step = per_axis(stride, 2) if stride not in ((), []) else kernel
    counts = [
        window_count(size, k, s, p, 1, ceil_mode)
        for size, k, s, p in zip(x.shape[-2:], kernel, step, border, strict=True)
    ]
    more = [
        max((n - 1) * s + k - size - p, 0)
        for n, s, k, size, p in zip(counts, step, kernel, x.shape[-2:], border, strict=True)
    ]
    channels = x.shape[1]
    weights = torch.full((channels, 1, *kernel), 1 / (divisor_override or 1))
    padded = F.pad(x, (border[1], more[1], border[0], more[0]))
    return F.conv2d(padded, weights, None, tuple(step), 0, 1, channels)


def _has_divisor(node: Node) -> bool:
    return named_argument(node, "divisor_override") is not None


def _pool_volume(
    pool: Pool, x: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1
) -> Tensor:
    """Pools each image of a volume, then along its depth."""
    kernel, border, apart = (per_axis(argument, 3) for argument in (kernel_size, padding, dilation))
    step = per_axis(stride, 3) if stride not in ((), []) else kernel
    return over_volumes(
        x,
        lambda y: pool(y, kernel[1:], step[1:], border[1:], apart[1:]),
        lambda y: pool(y, (kernel[0], 1), (step[0], 1), (border[0], 0), (apart[0], 1)),
    )


def _avg_pool3d(x: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, *rest: Any) -> Tensor:
    return _pool_volume(
        lambda y, *window: F.avg_pool2d(y, *window[:3], *rest), x, kernel_size, stride, padding
    )


def _max_pool3d(
    x: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, *rest: Any
) -> Tensor:
    return _pool_volume(
        lambda y, *window: F.max_pool2d(y, *window, *rest), x, kernel_size, stride, padding, dilation
    )


def _adaptive_pool3d(pool: Callable[..., Any]) -> Pool:
    def decomposed(x: Tensor, output_size: Sequence[int]) -> Tensor:
        front, height, width = per_axis(list(output_size), 3)
        return over_volumes(x, lambda y: pool(y, (height, width)), lambda y: pool(y, (front, height * width)))

    return decomposed


decompose_by(
    _adaptive_pool_decomposition(F.avg_pool2d),
    aten.adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool2d.default,
    when=_has_unequal_windows,
)
decompose_by(_adaptive_pool3d(F.adaptive_avg_pool2d), aten.adaptive_avg_pool3d.default)
decompose_by(
    _without_indices(_adaptive_pool_decomposition(F.max_pool2d)),
    aten.adaptive_max_pool2d.default,
    when=reads_values_only,
)
decompose_by(
    _without_indices(_adaptive_pool3d(F.adaptive_max_pool2d)),
    aten.adaptive_max_pool3d.default,
    when=reads_values_only,
)
decompose_by(_average_pool_by_convolution, aten.avg_pool2d.default, when=_has_divisor)
decompose_by(_avg_pool3d, aten.avg_pool3d.default, when=lambda node: not _has_divisor(node))
decompose_by(dilated_max, aten.max_pool2d.default, when=is_dilated)
decompose_by(_max_pool3d, aten.max_pool3d.default)
decompose_by(_without_indices(_max_pool3d), aten.max_pool3d_with_indices.default, when=reads_values_only)
