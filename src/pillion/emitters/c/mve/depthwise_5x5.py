# SPDX-License-Identifier: Apache-2.0
"""The Helium 5x5 depthwise convolution (kernels/mve/depthwise_5x5.h): constants, conditions and cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int8Array, Int32Array, channels_of
from pillion.emitters.c.mve.depthwise_strips import UINT16_MAX, channel_numbers, small_sums
from pillion.emitters.c.mve.pack import Params, check_right_shifts, kernel_has_sizes
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Convolution

ROWS = 4
"""Output rows that are computed together."""
WINDOW_ROWS = 12
"""The input rows in their windows, for either stride."""
COLUMNS = 16
"""Image columns that are copied together."""
KERNEL_BYTES = 64
"""Scratch bytes of the weights, with zeros between and before rows."""
TAPS = np.pad(np.arange(25).reshape(5, 5), ((0, 1), (0, 3)), constant_values=25).astype(np.uint8).reshape(-1)
"""The source of each scratch byte among the 25 weights; index 25 is a zero behind them."""
LEAST_OUTPUTS = 16
"""The smallest image; for smaller ones, 16 channels at a time take fewer instructions (wide.h)."""


@dataclass(frozen=True)
class Plane5x5:
    """A padded channel, and the groups of output rows that are computed together: windows two rows of the plane
    apart."""

    row_bytes: int
    groups: tuple[tuple[int, ...], ...]
    rows: int

    @property
    def bytes(self) -> int:
        """The size of the plane."""
        return self.row_bytes * self.rows


def plane_of(op: Convolution) -> Plane5x5:
    """Returns the layout of a padded channel."""
    stride, (out_h, out_w) = op.stride[0], op.y.shape[1:3]
    groups = tuple(
        group
        for first in range(3 - stride)
        for group in _split_into_row_groups(range(first, out_h, 3 - stride))
    )
    rows = stride * max(group[0] for group in groups) + WINDOW_ROWS
    return Plane5x5(4 * ((out_w - 1) // _output_columns_per_block(stride)) + 8, groups, rows)


def _split_into_row_groups(rows: range) -> list[tuple[int, ...]]:
    """Splits rows into fours; the last group ends with the last row."""
    return [tuple(rows[max(min(i, len(rows) - ROWS), 0) :][:ROWS]) for i in range(0, len(rows), ROWS)]


def _output_columns_per_block(stride: int) -> int:
    """Returns the number of output columns with windows inside eight input columns."""
    return 4 // stride


def _copied_rows_and_columns(op: Convolution) -> tuple[int, int]:
    """Returns the rows and columns of the image that fit the plane, at least one each."""
    plane = plane_of(op)
    return min(op.x.shape[1], plane.rows - op.padding[0]), min(op.x.shape[2], plane.row_bytes - op.padding[1])


def verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_depthwise_5x5_s8_mve is exact."""
    shape = shape_verdicts(op)
    if not all_ok(shape):
        return shape
    return *shape, check_right_shifts(op), small_sums(op, _output_columns_per_block(op.stride[0]))


def shape_verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether windows are 5x5, and images large enough, with offsets in a row that fit 16 bits."""
    shape = (
        kernel_has_sizes(op, "kernel", "5x5", (5, 5)),
        kernel_has_sizes(op, "stride", "1 or 2", (1, 1), (2, 2)),
        kernel_has_sizes(op, "dilation", "1", (1, 1)),
        Verdict(
            "image",
            op.y.shape[1] >= ROWS and op.y.shape[1] * op.y.shape[2] >= LEAST_OUTPUTS,
            f"at least {ROWS} rows and {LEAST_OUTPUTS} pixels of outputs",
            "x".join(map(str, op.y.shape[1:3])),
        ),
    )
    if not all_ok(shape):
        return shape
    reach = (COLUMNS - 1) * op.in_channels
    return (
        *shape,
        Verdict("row", reach <= UINT16_MAX, f"{COLUMNS} pixels within {UINT16_MAX} bytes", str(reach)),
    )


def scratch_bytes(op: Convolution) -> int:
    """Returns the scratch bytes: a channel's weights, then its plane."""
    return KERNEL_BYTES + plane_of(op).bytes


WORK = (61.0, 8.2, 8.0, 12.8, 21.3, 28.0)
"""Instructions, fitted to counts in the emulator, per channel, per block of copied columns, per row of such a block,
per group of output rows, per block of output columns in such a group, and per output column."""


def work(op: Convolution) -> float:
    """Estimates the instructions of the 5x5 kernel."""
    (rows, columns), groups, out_w = _copied_rows_and_columns(op), len(plane_of(op).groups), op.y.shape[2]
    blocks, of_outputs = -(-columns // COLUMNS), -(-out_w // _output_columns_per_block(op.stride[0]))
    counts = (1, blocks, rows * blocks, groups, groups * of_outputs, groups * out_w)
    return op.x.shape[0] * op.out_channels * float(np.dot(WORK, counts))


def params(op: Convolution) -> Params:
    """Returns the parameters of the 5x5 kernel with int8 results."""
    weights = channels_of(op).with_folded_zero_point.weights
    return {**layout_params(op, weights), "numbers": channel_numbers(op)}


def layout_params(op: Convolution, weights: Int8Array) -> Params:
    """Returns the parameters of 5x5 kernels but for the numbers of channels."""
    return {
        "image_bytes": op.x.type.size_bytes // op.x.shape[0],
        "output_bytes": op.y.type.size_bytes // op.y.shape[0],
        "filters": op.out_channels // op.in_channels,
        "plane_bytes": plane_of(op).bytes,
        "layout": np.concatenate([_plane_build_table(op), _output_table(op)]),
        "kernels": np.pad(weights, ((0, 0), (0, 1))).reshape(-1),
    }


def _plane_build_table(op: Convolution) -> Int32Array:
    """Returns the table by which a channel is copied into the plane."""
    row_bytes, (rows, columns) = plane_of(op).row_bytes, _copied_rows_and_columns(op)
    blocks = -(-columns // COLUMNS)
    second = columns - COLUMNS * (blocks - 1)
    words = [
        *(op.x.shape[2] * op.in_channels, row_bytes, rows, blocks),
        *(second * op.in_channels, second, COLUMNS * op.in_channels, COLUMNS),
        *(op.padding[0] * row_bytes + op.padding[1], (1 << min(columns, COLUMNS)) - 1),
    ]
    offsets = np.minimum(np.arange(COLUMNS), columns - 1) * op.in_channels
    return np.concatenate(
        [np.array(words, np.int32), _pack_halfwords(offsets[0::2]), _pack_halfwords(offsets[1::2])]
    )


def _pack_halfwords(offsets: NDArray[np.int64]) -> Int32Array:
    return offsets.astype(np.uint16).view(np.int32)


def _output_table(op: Convolution) -> Int32Array:
    """Returns the table by which outputs are computed. A group of fewer than four rows writes its last row
    repeatedly, the correct outputs last."""
    plane, stride = plane_of(op), op.stride[0]
    y_pixel = op.out_channels * op.y.dtype.size_bytes
    y_row = op.y.shape[2] * y_pixel
    words = [
        *(0, 4, plane.row_bytes, plane.row_bytes + 4),
        op.y.shape[2],
        _output_columns_per_block(stride),
        stride,
        y_pixel,
    ]
    words += [*TAPS.view(np.int32), len(plane.groups)]
    for group in plane.groups:
        rows = [row - group[0] for row in (*group, *[group[-1]] * (ROWS - len(group)))]
        words += [row * y_row for row in reversed(rows)]
        words += [stride * group[0] * plane.row_bytes, group[0] * y_row]
    return np.array(words, np.int32)
