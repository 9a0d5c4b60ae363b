# SPDX-License-Identifier: Apache-2.0
"""The Helium 3x3 convolutions over planes of 16 channels: constants, conditions and cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, OutputChannels
from pillion.emitters.c.mve.pack import (
    FOUR_LANES,
    ConvGeometry,
    Params,
    check_right_shifts,
    group_channels,
    join_groups,
    negative_sum_mode,
    pack_dot,
    work_of_sums,
)
from pillion.ir.verdict import Verdict

SCRATCH_3X3_BYTES = 8192
"""The target size of the planes, which limits the output rows for each block."""


def conv2d_3x3_verdicts(g: ConvGeometry, channels: OutputChannels) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_conv2d_3x3_s8_mve is exact."""
    return (
        g.has("kernel", "3x3", (3, 3)),
        g.has("dilation", "1", (1, 1)),
        Verdict("groups", g.groups == 1, "1", str(g.groups)),
        Verdict("stride", g.stride[1] <= 2, "1 or 2 along rows", str(g.stride[1])),
        Verdict("in_channels", g.in_c % 16 == 0, "a multiple of 16", str(g.in_c)),
        Verdict("out_channels", g.out_c >= 8, "at least 8", str(g.out_c)),
        Verdict("pixels", g.out_size[1] >= 2, "at least 2 in a row", str(g.out_size[1])),
        Verdict(
            "columns", g.pad_left < conv2d_3x3_columns(g), "windows reach the image", f"padding {g.pad_left}"
        ),
        check_right_shifts(channels),
    )


def conv2d_3x3_columns(g: ConvGeometry) -> int:
    """Returns the columns of the padded image inside the windows."""
    return (g.out_size[1] - 1) * g.stride[1] + 3


def conv2d_3x3_params(g: ConvGeometry, channels: OutputChannels) -> Params:
    """Returns the parameters of the 3x3 kernel."""
    order = [0, 1, 2] if g.stride[1] == 1 else [0, 2, 1]
    weights = _weights_by_planes(channels.weights)[:, :, :, order].reshape(g.out_c, -1)
    constants = pack_dot(replace(channels, weights=weights))
    return {**_plane_params(g), "signs": negative_sum_mode(channels), "constants": constants}


def conv2d_3x3_fours_verdicts(g: ConvGeometry, channels: OutputChannels) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_conv2d_3x3_fours_s8_mve is exact."""
    return (
        *conv2d_3x3_verdicts(g, channels),
        Verdict("steps", g.stride[1] == 1, "1 along rows", str(g.stride[1])),
        Verdict("fours", g.out_c % 4 == 0, "a multiple of 4 channels", str(g.out_c)),
        Verdict("row", g.out_size[1] >= 4, "at least 4 pixels", str(g.out_size[1])),
    )


def conv2d_3x3_fours_params(g: ConvGeometry, channels: OutputChannels) -> Params:
    """Returns the parameters of the 3x3 kernel that computes four pixels at a time."""
    groups = group_channels(channels.with_folded_zero_point, FOUR_LANES)
    planes = _weights_by_planes(groups.weights)
    weights = np.moveaxis(planes.reshape(-1, 2, 2, 3, g.in_c // 16, 3, 16), 2, 5)
    constants = join_groups(groups.bias, groups.multipliers, groups.shifts, weights)
    signs = negative_sum_mode(channels, dot=False)
    return {**_plane_params(g), "signs": signs, "constants": constants}


def _weights_by_planes(weights: Int8Array) -> Int8Array:
    """Returns the weights of each channel as [row][plane][column][16]."""
    return weights.reshape(*weights.shape[:-1], 3, 3, -1, 16).swapaxes(-3, -2)


def _plane_params(g: ConvGeometry) -> dict[str, int]:
    columns = conv2d_3x3_columns(g)
    block_rows = block_of_rows(g)
    return {
        "in_row_bytes": g.in_size[1] * g.in_c,
        "copy_w": min(columns - g.pad_left, g.in_size[1]),
        "planes": g.in_c // 16,
        "plane_bytes": 16 * columns,
        "block_rows": block_rows,
        "scratch_rows": (block_rows - 1) * g.stride[0] + 3,
    }


def block_of_rows(g: ConvGeometry) -> int:
    """Returns the output rows that the 3x3 kernel computes from one padded block of the image."""
    columns = (g.out_size[1] - 1) * g.stride[1] + 3
    most = (SCRATCH_3X3_BYTES // (columns * g.in_c) - 3) // g.stride[0] + 1
    blocks = -(-g.out_size[0] // max(most, 1))
    return -(-g.out_size[0] // blocks)


def conv2d_3x3_scratch(g: ConvGeometry) -> int:
    """Returns the scratch bytes of the 3x3 kernels: a padded block of the image."""
    columns = conv2d_3x3_columns(g)
    return ((block_of_rows(g) - 1) * g.stride[0] + 3) * columns * g.in_c


PLANES_WORK = (310.0, 32.0, 54.0, 27.9, 10.0, 6.8)
"""Instructions of the 3x3 kernel, fitted to counts in the emulator: for a block of rows, eight channels, a pair of
pixels of these, 16 inputs of such a pair; a row of 16 channels of the image, and each of its pixels."""


FOURS_WORK = (420.0, 130.0, 49.0, 25.0, 10.0, 6.8)
"""Instructions of the kernel of four pixels at a time: as `PLANES_WORK`, but for four channels and four pixels of
these."""


def conv2d_3x3_work(g: ConvGeometry) -> float:
    """Estimates the instructions of the 3x3 kernel; in rows of odd length, one pixel is computed twice."""
    block, *sums, row, pixel = PLANES_WORK
    (in_h, in_w), (out_h, out_w) = g.in_size, g.out_size
    blocks = -(-out_h // block_of_rows(g))
    copied = g.in_c / 16 * in_h * (row + pixel * in_w)
    return g.images * (blocks * block + work_of_sums(g, out_h * -(-out_w // 2), tuple(sums)) + copied)


def conv2d_3x3_fours_work(g: ConvGeometry) -> float:
    """Estimates the instructions of the 3x3 kernel of four pixels at a time; a remainder of a row is computed by
    overlapping groups."""
    block, group, four, piece, row, pixel = FOURS_WORK
    (in_h, in_w), (out_h, out_w) = g.in_size, g.out_size
    blocks, calls = -(-out_h // block_of_rows(g)), 1 + (out_w % 4 > 0)
    fours = out_h * -(-out_w // 4) * (four + 9 * g.in_c // 16 * piece)
    copied = g.in_c / 16 * in_h * (row + pixel * in_w)
    return g.images * (blocks * block + g.out_c // 4 * (blocks * calls * group + fours) + copied)
