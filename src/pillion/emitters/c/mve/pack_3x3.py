# SPDX-License-Identifier: Apache-2.0
"""The Helium 3x3 convolutions over planes of 16 bytes of channels: constants, conditions and cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, channels_of
from pillion.emitters.c.mve import pack
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Convolution

SCRATCH_3X3_BYTES = 8192
"""The target size of the planes, which limits the output rows for each block."""


def plane_verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether the windows are those of planes."""
    unit = pack.vector_inputs(op)
    return (
        pack.kernel_has_sizes(op, "kernel", "3x3", (3, 3)),
        pack.kernel_has_sizes(op, "dilation", "1", (1, 1)),
        pack.is_ungrouped(op),
        Verdict("stride", op.stride[1] <= 2, "1 or 2 along rows", str(op.stride[1])),
        Verdict("in_channels", op.in_channels % unit == 0, f"a multiple of {unit}", str(op.in_channels)),
        Verdict(
            "columns",
            op.padding[1] < padded_columns(op),
            "windows reach the image",
            f"padding {op.padding[1]}",
        ),
    )


def verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_conv2d_3x3_s8_mve is exact."""
    return (*plane_verdicts(op), *has_pairs(op), pack.check_factors(op))


def has_pairs(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether the result has the channels and pixels that are computed together."""
    return (
        Verdict("out_channels", op.out_channels >= 8, "at least 8", str(op.out_channels)),
        Verdict("pixels", op.y.shape[2] >= 2, "at least 2 in a row", str(op.y.shape[2])),
    )


def padded_columns(op: Convolution) -> int:
    """Returns the columns of the padded image inside the windows."""
    return (op.y.shape[2] - 1) * op.stride[1] + 3


def params(op: Convolution) -> pack.Params:
    """Returns the parameters of the 3x3 kernel."""
    channels = channels_of(op)
    weights = weights_by_planes(op, channels.weights).reshape(op.out_channels, -1)
    constants = pack.pack_dot(replace(channels, weights=weights), pack.stored_form(op))
    return {**plane_params(op), "signs": pack.negative_sum_mode(channels), "constants": constants}


def four_pixel_verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_conv2d_3x3_fours_s8_mve is exact."""
    return (
        *plane_verdicts(op),
        *has_pairs(op),
        pack.check_optional_fix(op),
        Verdict("steps", op.stride[1] == 1, "1 along rows", str(op.stride[1])),
        Verdict("fours", op.out_channels % 4 == 0, "a multiple of 4 channels", str(op.out_channels)),
        has_four_pixels(op),
    )


def has_four_pixels(op: Convolution) -> Verdict:
    """Checks whether a row has the pixels that are computed together."""
    return Verdict("row", op.y.shape[2] >= 4, "at least 4 pixels", str(op.y.shape[2]))


def four_pixel_params(op: Convolution) -> pack.Params:
    """Returns the parameters of the 3x3 kernel that computes four pixels at a time."""
    channels = channels_of(op)
    groups = pack.group_channels(channels.with_folded_zero_point, pack.FOUR_LANES)
    planes = weights_by_planes(op, groups.weights)
    weights = np.moveaxis(planes.reshape(-1, 2, 2, 3, op.in_channels // 16, 3, 16), 2, 5)
    constants = pack.join_groups(
        groups.bias, groups.multipliers, groups.shifts, pack.stored_form(op)(weights)
    )
    signs = pack.negative_sum_mode(channels, dot=False)
    return {**plane_params(op), "signs": signs, "constants": constants}


def weights_by_planes(op: Convolution, weights: Int8Array) -> Int8Array:
    """Returns the weights of each channel as [row][plane][column][channels of a plane], at stride 2 with the columns 0 2 1."""
    order = [0, 1, 2] if op.stride[1] == 1 else [0, 2, 1]
    planes = weights.reshape(*weights.shape[:-1], 3, 3, -1, pack.vector_inputs(op)).swapaxes(-3, -2)
    return planes[..., order, :]


def plane_params(op: Convolution) -> dict[str, int]:
    """Returns the sizes of the planes of a block of rows."""
    columns = padded_columns(op)
    block_rows = block_of_rows(op)
    return {
        "in_row_bytes": op.x.shape[2] * pack.pixel_bytes(op),
        "copy_w": min(columns - op.padding[1], op.x.shape[2]),
        "planes": pack.vector_count(pack.pixel_bytes(op)),
        "plane_bytes": 16 * columns,
        "block_rows": block_rows,
        "scratch_rows": (block_rows - 1) * op.stride[0] + 3,
    }


def block_of_rows(op: Convolution) -> int:
    """Returns the output rows that the 3x3 kernel computes from one padded block of the image."""
    row_bytes = padded_columns(op) * pack.pixel_bytes(op)
    most = (SCRATCH_3X3_BYTES // row_bytes - 3) // op.stride[0] + 1
    blocks = -(-op.y.shape[1] // max(most, 1))
    return -(-op.y.shape[1] // blocks)


def scratch_bytes(op: Convolution) -> int:
    """Returns the scratch bytes of the 3x3 kernels: a padded block of the image."""
    return ((block_of_rows(op) - 1) * op.stride[0] + 3) * padded_columns(op) * pack.pixel_bytes(op)


def unpacked_bytes(op: Convolution, channels: int) -> int:
    """Returns the bytes of the weights of some channels that are unpacked together, in pairs of vectors."""
    return 32 * -(-9 * op.in_channels * channels // 32)


def unpacking_instructions(op: Convolution, channels: int) -> float:
    """Estimates the instructions that unpack the weights of some channels at a time for each block of rows."""
    blocks = op.x.shape[0] * -(-op.y.shape[1] // block_of_rows(op))
    return blocks * -(-op.out_channels // channels) * (15.0 + 7 * unpacked_bytes(op, channels) / 32)


PLANES_WORK = (310.0, 32.0, 54.0, 27.9, 10.0, 6.8)
"""Instructions of the 3x3 kernel, fitted to counts in the emulator, per block of rows, per eight channels, per pair
of pixels and eight channels, per 16 inputs of such a pair, per row of 16 channels of the image, and per pixel of that
row."""


FOURS_WORK = (420.0, 130.0, 49.0, 25.0, 10.0, 6.8)
"""Instructions of the kernel that computes four pixels at once: as `PLANES_WORK`, with four channels and four pixels
in place of eight and two."""


def work(op: Convolution, instructions: tuple[float, ...] = PLANES_WORK) -> float:
    """Estimates the instructions of a 3x3 kernel; in rows of odd length, one pixel is computed twice."""
    block, *sums, row, pixel = instructions
    (in_h, in_w), (out_h, out_w) = op.x.shape[1:3], op.y.shape[1:3]
    blocks = -(-out_h // block_of_rows(op))
    copied = pack.vector_count(pack.pixel_bytes(op)) * in_h * (row + pixel * in_w)
    return op.x.shape[0] * (
        blocks * block + pack.work_of_sums(op, out_h * -(-out_w // 2), tuple(sums)) + copied
    )


def four_pixel_instructions(
    op: Convolution, channels: int = 4, work: tuple[float, ...] = FOURS_WORK
) -> float:
    """Estimates the instructions of a 3x3 kernel of four pixels and some channels at a time; a remainder of a row is
    computed by overlapping groups."""
    block, group, four, piece, row, pixel = work
    (in_h, in_w), (out_h, out_w) = op.x.shape[1:3], op.y.shape[1:3]
    planes, blocks, calls = (
        pack.vector_count(pack.pixel_bytes(op)),
        -(-out_h // block_of_rows(op)),
        1 + (out_w % 4 > 0),
    )
    fours = out_h * -(-out_w // 4) * (four + 9 * planes * piece)
    copied = planes * in_h * (row + pixel * in_w)
    return op.x.shape[0] * (
        blocks * block + op.out_channels // channels * (blocks * calls * group + fours) + copied
    )
