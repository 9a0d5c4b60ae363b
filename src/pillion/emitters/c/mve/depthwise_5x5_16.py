# SPDX-License-Identifier: Apache-2.0
"""The Helium 5x5 depthwise convolution of 16 bits (kernels/mve/depthwise_5x5_s16_mve.c): layout, conditions and cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import is_within
from pillion.emitters.c.mve.depthwise_strips import UINT16_MAX
from pillion.emitters.c.mve.pack import kernel_has_sizes, pixel_bytes
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d

ROWS = 4
"""Output rows that are computed together."""
COLUMNS = 8
"""The columns of a vector."""
TILE_COLUMNS = 32
"""The columns of a tile."""
OVERREAD = 8
"""The bytes behind the last tile that its last vector reads."""
WORK = (76.0, 9.0, 4.0, 34.0, {1: 39.0, 2: 42.0})
"""Instructions, counted in the emulator, per channel, per copied row, per vector of such a row, per group of output
rows, and per column of such a group by stride."""


@dataclass(frozen=True)
class Tile:
    """Columns of a padded channel: first output column, number of output columns, first image column, number of image
    columns, and columns of padding before these."""

    first: int
    outputs: int
    start: int
    columns: int
    before: int


def tiles_of(op: DepthwiseConv2d) -> list[Tile]:
    """Returns the tiles of a channel, from left to right."""
    out_w, stride, tiles = op.y.shape[2], op.stride[1], []
    for first in range(0, out_w, (TILE_COLUMNS - 5) // stride + 1):
        outputs = min(out_w - first, (TILE_COLUMNS - 5) // stride + 1)
        left = first * stride - op.padding[1]
        start, end = max(left, 0), min(left + (outputs - 1) * stride + 5, op.x.shape[2])
        tiles.append(Tile(first, outputs, start, max(end - start, 0), start - left))
    return tiles


def _tile_rows(op: DepthwiseConv2d) -> int:
    """Returns the rows of a padded channel."""
    return (op.y.shape[1] - 1) * op.stride[0] + 5


def _copied_rows(op: DepthwiseConv2d) -> int:
    """Returns the rows of the image that the windows see."""
    return min(op.x.shape[1], _tile_rows(op) - op.padding[0])


def verdicts(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
    """Checks whether windows are 5x5, see the image, and have four rows of outputs."""
    return (
        kernel_has_sizes(op, "kernel", "5x5", (5, 5)),
        kernel_has_sizes(op, "stride", "1 or 2", (1, 1), (2, 2)),
        kernel_has_sizes(op, "dilation", "1", (1, 1)),
        is_within("rows", op.y.shape[1], least=ROWS),
        is_within("padding", _copied_rows(op), least=1),
        is_within("columns", (COLUMNS - 1) * pixel_bytes(op), most=UINT16_MAX, unit="bytes apart"),
    )


def plane_bytes(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes: a padded channel in tiles."""
    return len(tiles_of(op)) * _tile_rows(op) * 2 * TILE_COLUMNS + OVERREAD


def _firsts(op: DepthwiseConv2d) -> list[int]:
    """Returns the first rows of the groups; the last one ends with the last row."""
    return [min(row, op.y.shape[1] - ROWS) for row in range(0, op.y.shape[1], ROWS)]


def layout_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters but for the numbers of channels."""
    stride, pixel, y_pixel = op.stride[0], pixel_bytes(op), 2 * op.out_channels
    row, y_row = 2 * TILE_COLUMNS, op.y.shape[2] * y_pixel
    tiles, firsts, copies, groups = tiles_of(op), _firsts(op), [], []
    for place, tile in enumerate(tiles):
        top = place * _tile_rows(op) * row
        copies += [tile.start * pixel, top + op.padding[0] * row + 2 * tile.before, tile.columns]
        for first in firsts:
            groups += [top + stride * first * row, first * y_row + tile.first * y_pixel, tile.outputs]
    words = [
        *(op.x.shape[2] * pixel, pixel, _copied_rows(op), len(tiles)),
        *(stride, y_pixel, len(tiles) * len(firsts)),
        *(row * y_row for row in range(ROWS)),
        *copies,
        *groups,
    ]
    return {
        "image_bytes": op.x.type.size_bytes // op.x.shape[0],
        "output_bytes": op.y.type.size_bytes // op.y.shape[0],
        "filters": op.depth_multiplier,
        "plane_bytes": plane_bytes(op),
        "layout": np.array(words, np.int32),
        "kernels": np.ascontiguousarray(op.weights_per_output).reshape(-1),
    }


def work(op: DepthwiseConv2d) -> float:
    """Estimates the instructions of the kernel."""
    channel, row, vector, group, column = WORK
    of_plane, of_outputs = 0.0, channel
    for tile in tiles_of(op):
        of_plane += _copied_rows(op) * (row + vector * -(-tile.columns // COLUMNS))
        of_outputs += len(_firsts(op)) * (group + column[op.stride[0]] * tile.outputs)
    return op.x.shape[0] * (op.in_channels * of_plane + op.out_channels * of_outputs)
