# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of 3x3 convolutions by Winograd's F(2x2, 3x3) in integers, 16 products for four results: its
constants, conditions and cost, and the proof that no sum overflows."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array, channels_of
from pillion.emitters.c.channel_scaling import ScaledChannels, scale_channels
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import (
    LAYER,
    all_of,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.winograd import PLACES, conditions, tile_count, weight_growth_bytes
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d

TILES, RESULTS = 3, 4
"""Tiles of a block, results of a tile."""
UNROLLED, OTHER_JUMPS = 8, 24
"""Steps of two inputs in a loop iteration, and the entries of the jump list besides the iterations'."""
LARGEST_PLACE = 4 * 512 * 1152
"""A bound for any intermediate sum for each input channel: four times the largest transformed input, made of four
inputs, times the largest transformed weight, made of nine."""
SUM_LIMIT = 2**31
OF_COLUMNS = np.array([[1, 0, 0], [1, -1, 1], [1, 1, 1], [0, 0, 1]])
"""The transform of a window's columns: positions 0, 2, 1 and 3 of a tile's row."""
OF_ROWS = np.array([[1, 1, 1], [1, -1, 1], [2, 0, 0], [0, 0, 2]])
"""The transform of a window's rows, scaled to avoid halves: positions 1, 2, 0 and 3 of a tile's column."""
MOST_FLASH = 12288
"""The largest growth of a layer's weights in bytes by the transform."""
CALL, GROUP, FOUR_OF_TILE, BORDER, FOUR_OF_BORDER = 763.0, 280.0, 219.4, 224.0, 126.0
"""Instructions per call, per three tiles, per four inputs of a tile, per tile at the border, and per four inputs of
such a tile; fitted to counts in the emulator for 45 shapes with an error of at most 0.8 %."""
STEP, JOINED = 8.0, 356.0
"""Instructions for two inputs at a position, and for the output transform of three tiles and two channels."""


def winograd_sums_fit(op: Conv2d) -> Verdict:
    """Checks whether four times the bias plus the sums of all positions fit 32 bits."""
    bias = int(np.abs(scale_channels(channels_of(op)).sums).max(initial=0))
    reach = 4 * bias + op.in_channels * LARGEST_PLACE
    return Verdict("sums of places", reach < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {reach}")


def winograd_scratch_bytes(op: Conv2d) -> int:
    """Returns the scratch bytes: transformed inputs of three tiles, a padded tile, result addresses, the jump
    list, and a dummy pixel for results outside the image."""
    steps = op.in_channels // 2
    inputs, padded = 4 * PLACES * steps * TILES, PLACES * op.in_channels
    jumps = PLACES * (-(-steps // UNROLLED)) + OTHER_JUMPS
    return inputs + padded + 4 * (TILES * RESULTS + jumps) + op.out_channels


def winograd_instructions(op: Conv2d) -> float:
    """Estimates the instructions of the kernel."""
    steps, fours, count = op.in_channels // 2, op.in_channels / 4, tile_count(op)
    times = -(-count // TILES)
    rounds = -(-steps // UNROLLED) - (-(steps - 1) // UNROLLED)
    sums = PLACES * (STEP * steps + rounds / 2) + JOINED
    at_border = count - op.y.shape[0] * _tiles_inside_image(op, 0) * _tiles_inside_image(op, 1)
    prepared = FOUR_OF_TILE * fours * count + (BORDER + FOUR_OF_BORDER * fours) * at_border
    return CALL + GROUP * times + prepared + times * op.out_channels // 2 * sums


def _tiles_inside_image(op: Conv2d, axis: int) -> int:
    """Returns the number of tiles along an axis that lie inside the image."""
    first, size = op.padding[axis], op.x.shape[1 + axis]
    starts = range(-first, op.y.shape[1 + axis] - first, 2)
    return sum(0 <= start <= size - 4 for start in starts)


def params(op: Conv2d) -> Params:
    """Returns the parameters of the kernel."""
    scaled = scale_channels(channels_of(op))
    weights = prepared_weights(scaled.weights, op.in_channels)
    return {"weights": weights, "constants": packed_constants(scaled)}


def prepared_weights(weights: Int8Array, in_c: int) -> Int32Array:
    """Returns the transformed weights by position, column by column, with inputs 0 and 2, then 1 and 3 of every
    four in words."""
    windows = weights.reshape(-1, 2, 3, 3, in_c // 4, 2, 2).astype(np.int64)
    transformed = np.einsum("ir,jc,porcqkh->pjiqhok", OF_ROWS, OF_COLUMNS, windows)
    return np.ascontiguousarray(transformed.astype(np.int16)).reshape(-1).view(np.int32)


def packed_constants(scaled: ScaledChannels) -> Int32Array:
    """Returns four times the biases of each channel pair, then rounding constant, multiplier and right shift of
    both."""
    scales = np.stack([scaled.rounds, scaled.multipliers, scaled.rights], axis=1)
    return pack.join_word_stream(4 * scaled.sums.reshape(-1, 2), scales.reshape(-1, 6))


CONDITIONS = conditions(
    4, 2, weight_growth_bytes, MOST_FLASH, lambda op: pack.dot_verdicts(channels_of(op)), winograd_sums_fit
)
KERNEL = DSP.kernel(
    Conv2d,
    "conv2d_winograd_s8",
    params,
    requires=(short_circuit(LAYER, all_of(*CONDITIONS)),),
    scratch_bytes=winograd_scratch_bytes,
    overread_bytes=1,
    work=winograd_instructions,
    extra_flash=weight_growth_bytes,
    has_private_constants=True,
    row_unit=2,
    also=("winograd", "winograd_tiles", "clamp"),
)
