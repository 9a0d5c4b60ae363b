# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of 3x3 convolutions of 16-bit operands that lie within 2^14 numbers, by Winograd's F(2x2, 3x3), 16
products for four results: its constants, conditions and cost, and the proof that no sum overflows."""

from __future__ import annotations

import numpy as np

from pillion.devices.cortex_m.cores import IMAGE_BITS, Isa
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import is_within, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import (
    IN_32_BITS,
    bounds_with_padding,
    channels_16,
    operand_within,
    weight_rows,
)
from pillion.emitters.c.mve.pack import join_groups
from pillion.emitters.c.winograd import PLACES, conditions, tile_count, weight_growth_bytes
from pillion.ir import numerics
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d

TILES, VECTOR, LANES, UNROLLED = 2, 8, 4, 8
"""Tiles at a time, inputs of a vector, output channels at a time, and vectors of a
round of the loop."""
WIDTH = 2 ** IMAGE_BITS[Isa.MVE]
"""The numbers within which operands lie, so that differences of their differences fit 16 bits."""
MOST_FLASH = 98304
"""The largest growth of a layer's weights in bytes by the transform."""
OF_WINDOWS = np.array([[1, 1, 1], [1, -1, 1], [1, 0, 0], [0, 0, 1]])
"""The transform of the rows and the columns of a window, for inputs d1 + d2, d2 - d1, d0 - d2 and d3 - d1. Sums of the
first two are halved."""
COSTS = (653.0, 151.1, 84.2, 191.2, 1.0)
"""Instructions for a call, a tile, eight inputs of it, four channels of two tiles, and an instruction of their products."""


def half_sums_fit(op: Conv2d) -> Verdict:
    """Checks whether all sums that are halved fit 32 bits: those with d1 + d2 or d2 - d1 of rows, then of columns."""
    low, high = bounds_with_padding(op)
    width, bias = high - low, op.bias.constant.astype(np.int64)
    windows = weight_rows(op).reshape(-1, 3, 3, op.in_channels).astype(np.int64)
    columns = np.einsum("jc,orck->jork", OF_WINDOWS, windows)
    places = np.einsum("ir,jork->ijok", OF_WINDOWS[:2], columns)
    reaches = [
        _reach(columns[0].reshape(len(bias), -1), 2 * low, 2 * high, 2 * bias),
        _reach(columns[1].reshape(len(bias), -1), -width, width),
        _reach(places[0, 0], 4 * low, 4 * high, 4 * bias),
        *(_reach(places[i, j], -2 * width, 2 * width) for i in range(2) for j in range(4) if i or j),
    ]
    return is_within("halved sums", max(reaches), most=numerics.INT32_MAX)


def _reach(weights: Array, low: int, high: int, bias: Array | int = 0) -> int:
    """Returns the largest magnitude of the sums of a bias and products of weights [channels, inputs] with inputs between
    two numbers."""
    ends = np.stack([weights * low, weights * high])
    return int(max(-(bias + ends.min(0).sum(-1)).min(), (bias + ends.max(0).sum(-1)).max()))


def scratch_bytes(op: Conv2d) -> int:
    """Returns the scratch bytes: transformed inputs of two tiles, jumps, and two pixels outside the image."""
    vectors = op.in_channels // VECTOR
    jumps = PLACES * (1 + -(-(vectors - 1) // UNROLLED))
    return 2 * PLACES * TILES * op.in_channels + 4 * jumps + 2 * (op.in_channels + op.out_channels)


def params(op: Conv2d) -> Params:
    """Returns the parameters of the kernel."""
    low, high = bounds_with_padding(op)
    center = -4 * ((low + high + 1) // 2)
    channels = channels_16(op)
    groups = op.out_channels // LANES
    windows = weight_rows(op).reshape(groups, LANES, 3, 3, -1, VECTOR).astype(np.int64)
    weights = np.einsum("ir,jc,gorcvk->gjivok", OF_WINDOWS, OF_WINDOWS, windows)
    sums = weights[:, 0, 0].sum(axis=(1, 3))
    biases = 4 * op.bias.constant.astype(np.int64).reshape(groups, LANES) - center * sums
    words = np.ascontiguousarray(weights.astype(np.int16)).view(np.int32).reshape(groups, -1)
    factors = channels.multipliers.reshape(groups, LANES)
    return {
        "center": center,
        "stream": join_groups(words, numerics.wrap_to_32_bits(biases).astype(np.int32), factors),
    }


def instructions(op: Conv2d) -> float:
    """Estimates the instructions of the kernel."""
    return float(np.dot(COSTS, counts(op)))


def counts(op: Conv2d) -> tuple[float, ...]:
    """Returns how often the parts of the kernel run, in the order of their costs."""
    tiles, vectors, groups = tile_count(op), op.in_channels // VECTOR, op.out_channels // LANES
    rounds = -(-(vectors - 1) // UNROLLED)
    loops = -(-tiles // TILES) * groups
    return 1.0, float(tiles), tiles * vectors, loops, loops * PLACES * (14 * vectors + rounds)


KERNEL = MVE.kernel(
    Conv2d,
    "conv2d_winograd_s16",
    params,
    requires=(
        short_circuit(
            IN_32_BITS,
            *conditions(VECTOR, LANES, weight_growth_bytes, MOST_FLASH, operand_within(WIDTH), half_sums_fit),
        ),
    ),
    scratch_bytes=scratch_bytes,
    work=instructions,
    extra_flash=weight_growth_bytes,
    has_private_constants=True,
)
