# SPDX-License-Identifier: Apache-2.0
"""Decomposes image reads at constant positions: grid samples, affine grids and `as_strided`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, fake_result, is_constant, named_argument
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = 0, 1, 2


def _reflect_positions(positions: Tensor, size: int, align_corners: bool) -> Tensor:
    """Reflects positions outside at the centres or the ends of the border pixels."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return torch.zeros_like(positions)
    far = torch.remainder((positions - low).abs(), 2 * span)
    return torch.where(far > span, 2 * span - far, far) + low


def _apply_padding_mode(positions: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """Converts positions from −1…1 to pixels. The padding mode moves positions outside the image."""
    pixels = (positions + 1) / 2 * (size - 1) if align_corners else ((positions + 1) * size - 1) / 2
    if padding == REFLECTION:
        pixels = _reflect_positions(pixels, size, align_corners)
    return pixels if padding == ZEROS else pixels.clamp(0, size - 1)


def grid_sample(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    """Samples an image at constant positions: the nearest pixel, or a weighted sum of four."""
    count, channels, height, width = x.shape
    columns = _apply_padding_mode(grid[..., 0], width, padding, align_corners)
    rows = _apply_padding_mode(grid[..., 1], height, padding, align_corners)
    flat = x.transpose(0, 1).reshape(channels, count * height * width)
    first = (torch.arange(count) * (height * width)).reshape(count, 1, 1)

    def at(row: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        is_seen = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        position = first + row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
        return position.reshape(-1), is_seen.to(x.dtype).reshape(-1)

    if mode == NEAREST:
        position, seen = at(torch.round(rows), torch.round(columns))
        y = flat.index_select(1, position)
        y = y * seen if padding == ZEROS else y
    else:
        top, left = torch.floor(rows), torch.floor(columns)
        down, right = (rows - top).reshape(-1), (columns - left).reshape(-1)
        corners = [at(top + i, left + j) for i in (0, 1) for j in (0, 1)]
        shares = [(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right]
        weights = torch.stack([share * seen for share, (_, seen) in zip(shares, corners, strict=True)])
        pixels = flat.index_select(1, torch.cat([position for position, _ in corners]))
        y = (pixels.reshape(channels, len(corners), -1) * weights).sum(1)
    return y.reshape(channels, count, *grid.shape[1:3]).transpose(0, 1)


def _is_constant_warp(node: Node) -> bool:
    """Whether an image is sampled by a constant grid, not cubically."""
    grid, mode = named_argument(node, "grid"), named_argument(node, "interpolation_mode")
    image = node.args[0]
    return is_constant(grid) and not is_constant(image) and fake_result(image).dim() == 4 and mode != 2  # type: ignore[arg-type]  # a node


def _decompose_as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Gathers elements by their constant positions in memory."""
    positions = torch.arange(x.numel()).as_strided(size, stride, storage_offset or 0)
    return x.reshape(-1).index_select(0, positions.reshape(-1)).reshape(size)


def _is_contiguous_tensor(node: Node) -> bool:
    """Whether a tensor is contiguous and not a view with an offset."""
    x = fake_result(node.args[0])  # type: ignore[arg-type]  # the schema says tensor
    return x.is_contiguous() and x.storage_offset() == 0 and not is_constant(node.args[0])


decompose_by(_decompose_as_strided, aten.as_strided.default, when=_is_contiguous_tensor)
decompose_by(grid_sample, aten.grid_sampler.default, aten.grid_sampler_2d.default, when=_is_constant_warp)
