# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of 3x3 convolutions of 16-bit operands that lie within 2^15 numbers, by Winograd's F(2, 3) along rows, four
products for two results: its constants, conditions and cost, and the proof that no sum overflows."""

from __future__ import annotations

import numpy as np

from pillion.devices.cortex_m.cores import IMAGE_BITS, Isa
from pillion.emitters.c.dsp.pack import join_word_stream
from pillion.emitters.c.dsp.pack16 import upper_word_factors
from pillion.emitters.c.dsp.winograd import MOST_FLASH, TILES, UNROLLED
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.layers16 import IN_32_BITS, bounds_with_padding, operand_within, weight_rows
from pillion.emitters.c.winograd import conditions
from pillion.ir import numerics
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d

PLACES, ROWS, OTHER_JUMPS = 4, 4, 6
"""Products of a channel for two results, rows of results of a tile at most, entries of the jump list besides those of loop
iterations."""
OF_COLUMNS = np.array([[1, 1, 1], [1, -1, 1], [2, 0, 0], [0, 0, 2]])
"""The transform of a window's columns, doubled to avoid halves, for inputs d1 + d2, d2 - d1, d0 - d2 and d3 - d1."""
COSTS = (433.0, 49.0, 75.0, 28.6, 80.4, 8.13)
"""Instructions for a call, a tile, a row of its inputs, four inputs in such a row, two channels of a row of results of three
tiles, and two inputs of them at a place."""
WIDTH = 2 ** IMAGE_BITS[Isa.DSP]
"""The numbers within which operands lie, so that their differences fit 16 bits."""


def center(op: Conv2d) -> int:
    """Returns what is added to d1 + d2, so that it fits 16 bits."""
    low, high = bounds_with_padding(op)
    return -(low + high + 1)


def doubled_sums_fit(op: Conv2d) -> Verdict:
    """Checks whether twice every sum fits 32 bits."""
    weights, bias = weight_rows(op).astype(np.int64), op.bias.constant.astype(np.int64)
    products = np.stack([weights * bound for bound in bounds_with_padding(op)])
    least, largest = (2 * (bias + end.sum(axis=1)) for end in (products.min(0), products.max(0)))
    fits = least.min() >= numerics.INT32_MIN and largest.max() <= numerics.INT32_MAX
    return Verdict("sums", bool(fits), "32 bits for their double", f"{least.min()} to {largest.max()}")


def weight_growth_bytes(op: Conv2d) -> int:
    """Returns the growth of the weights in bytes: twelve of 16 bits instead of nine bytes, and factors twice."""
    return ((2 * PLACES - 3) * 3 * op.in_channels + 4) * op.out_channels


def tile_rows(op: Conv2d) -> int:
    """Returns the rows of results of a tile: as many in each, but for the last ones."""
    height = op.y.shape[1]
    return -(-height // -(-height // ROWS))


def scratch_bytes(op: Conv2d) -> int:
    """Returns the scratch bytes: transformed inputs of three tiles, the jump list, and two pixels outside the image."""
    steps = 3 * op.in_channels // 2
    words = PLACES * (tile_rows(op) + 2) * op.in_channels // 2 * TILES
    return 4 * (words + PLACES * (-(-steps // UNROLLED)) + OTHER_JUMPS) + 2 * (
        op.in_channels + op.out_channels
    )


def instructions(op: Conv2d) -> float:
    """Estimates the instructions of the kernel."""
    return float(np.dot(COSTS, counts(op)))


def counts(op: Conv2d) -> tuple[float, ...]:
    """Returns how often the parts of the kernel run, in the order of their costs."""
    batch, height, width, out_c = op.y.shape
    rows, columns, in_c = tile_rows(op), -(-width // 2), op.in_channels
    heights = np.minimum(rows, height - np.arange(0, height, rows))
    tiles = np.tile(np.repeat(heights, columns), batch)
    pairs = np.pad(tiles, (0, -len(tiles) % TILES)).reshape(-1, TILES).max(axis=1).sum() * out_c // 2
    inputs = (tiles + 2).sum()
    return 1.0, float(len(tiles)), inputs, inputs * in_c / 4, pairs, pairs * PLACES * 3 * in_c / 2


def params(op: Conv2d) -> Params:
    """Returns the parameters of the kernel."""
    pairs = op.out_channels // 2
    windows = weight_rows(op).reshape(pairs, 2, 3, 3, op.in_channels // 2, 2).astype(np.int64)
    transformed = np.einsum("jc,porckh->pjrkoh", OF_COLUMNS, windows)
    middle = -center(op) * transformed[:, 0].sum(axis=(1, 2, 4))
    words = np.ascontiguousarray(transformed.astype(np.int16)).view(np.int32).reshape(pairs, PLACES, -1)
    biases = 2 * op.bias.constant.astype(np.int64).reshape(pairs, 2) + middle
    factors = (upper_word_factors(op) >> 1).reshape(pairs, 2)
    first_three = words[:, :3].reshape(pairs, -1)
    stream = join_word_stream(biases, first_three, factors, words[:, 3], factors)
    return {"center": int(numerics.wrap_to_32_bits(center(op) % 2**16 * 0x10001)), "stream": stream}


KERNEL = DSP.kernel(
    Conv2d,
    "conv2d_winograd_s16",
    params,
    requires=(
        short_circuit(
            IN_32_BITS,
            *conditions(4, 2, weight_growth_bytes, MOST_FLASH, operand_within(WIDTH), doubled_sums_fit),
        ),
    ),
    scratch_bytes=scratch_bytes,
    work=instructions,
    extra_flash=weight_growth_bytes,
    has_private_constants=True,
)
