# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel for windows of 3x3 that takes 16 products for 2x2 results, by Winograd's way, in integers: its constants, its scratch, what it
takes, and the proof that nothing leaves 32 bits."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array, channels_of
from pillion.emitters.c.conditions import constants, int8
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.library import DSP
from pillion.emitters.c.rescaled import Scaled, scale_channels
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Conv2d

ROUTINE = DSP.routine("conv2d_winograd_s8", "winograd", "winograd_tiles", "clamp")
PLACES, TILES, RESULTS = 16, 3, 4
"""Products of a pair of channels for a tile, tiles of a block, results of a tile."""
UNROLLED, OTHER_JUMPS = 8, 24
"""Steps of two inputs to a round of the loop, and what its list of jumps holds beside rounds."""
LARGEST_PLACE = 4 * 512 * 1152
"""Four times the largest input of a place, which is made of four inputs, times the largest weight, made of nine: of each input channel, no sum on the way
to results is larger."""
SUM_LIMIT = 2**31
OF_COLUMNS = np.array([[1, 0, 0], [1, -1, 1], [1, 1, 1], [0, 0, 1]])
"""What becomes of the three columns of a window: places 0, 2, 1 and 3 of a tile's row."""
OF_ROWS = np.array([[1, 1, 1], [1, -1, 1], [2, 0, 0], [0, 0, 2]])
"""What becomes of its rows, so that there are no halves: places 1, 2, 0 and 3 of a column."""
MOST_FLASH = 12288
"""The bytes that prepared weights of a layer may take beyond those that they are prepared from."""
CALL, GROUP, FOUR_OF_TILE, BORDER, FOUR_OF_BORDER = 763.0, 280.0, 219.4, 224.0, 126.0
"""Instructions, fitted to counts in the emulator for 45 shapes, which they meet within 0.8 %: for a call, for each three
tiles, for four inputs of a tile, for a tile at the border, and for four inputs of one."""
STEP, JOINED = 8.0, 356.0
"""For two inputs of a place, and for what makes results of the places of three tiles and two channels."""


def takes(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution has the window, channels in whole steps, and numbers for which all sums stay in 32 bits."""
    got = f"{op.kernel}, stride {op.stride}, dilation {op.dilation}"
    plain = (op.kernel, op.stride, op.dilation) == ((3, 3), (1, 1), (1, 1))
    operands = (*int8(x=op.x, weights=op.weights, y=op.y), *constants(weights=op.weights, bias=op.bias))
    if not all_ok(operands):
        return operands
    more = further_bytes(op)
    return (
        Verdict("window", plain, "3x3, stride 1, no dilation", got),
        Verdict("groups", op.groups == 1, "1", str(op.groups)),
        Verdict("in_channels", op.in_channels % 4 == 0, "a multiple of 4", str(op.in_channels)),
        Verdict("out_channels", op.out_channels % 2 == 0, "a multiple of 2", str(op.out_channels)),
        *operands,
        *pack.dot_verdicts(channels_of(op)),
        _sums_fit(op),
        Verdict("further flash", more <= MOST_FLASH, f"at most {MOST_FLASH} bytes", str(more)),
    )


def _sums_fit(op: Conv2d) -> Verdict:
    """Judges whether four times a bias and the sums of places together stay in 32 bits."""
    bias = int(np.abs(scale_channels(channels_of(op)).sums).max(initial=0))
    reach = 4 * bias + op.in_channels * LARGEST_PLACE
    return Verdict("sums of places", reach < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {reach}")


def tiles(op: Conv2d) -> int:
    """Counts the tiles of 2x2 results."""
    batch, height, width, _ = op.y.shape
    return batch * (-(-height // 2)) * (-(-width // 2))


def further_bytes(op: Conv2d) -> int:
    """Gives how many bytes more of flash prepared weights take: 16 places of 16 bits for nine bytes."""
    return (2 * PLACES - 9) * op.in_channels * op.out_channels


def scratch(op: Conv2d) -> int:
    """Gives the scratch: inputs of three tiles as they are multiplied, a tile with padding, where results go, jumps, and the place for
    results beyond the image."""
    steps = op.in_channels // 2
    inputs, padded = 4 * PLACES * steps * TILES, PLACES * op.in_channels
    jumps = PLACES * (-(-steps // UNROLLED)) + OTHER_JUMPS
    return inputs + padded + 4 * (TILES * RESULTS + jumps) + op.out_channels


def work(op: Conv2d) -> float:
    """Estimates the instructions."""
    steps, fours, count = op.in_channels // 2, op.in_channels / 4, tiles(op)
    times = -(-count // TILES)
    rounds = -(-steps // UNROLLED) - (-(steps - 1) // UNROLLED)
    sums = PLACES * (STEP * steps + rounds / 2) + JOINED
    at_border = count - op.y.shape[0] * _inside(op, 0) * _inside(op, 1)
    prepared = FOUR_OF_TILE * fours * count + (BORDER + FOUR_OF_BORDER * fours) * at_border
    return CALL + GROUP * times + prepared + times * op.out_channels // 2 * sums


def _inside(op: Conv2d, axis: int) -> int:
    """Counts the tiles along an axis that reach over neither end of the image."""
    first, size = op.padding[axis], op.x.shape[1 + axis]
    starts = range(-first, op.y.shape[1 + axis] - first, 2)
    return sum(0 <= start <= size - 4 for start in starts)


def calls(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel."""
    channels = channels_of(op)
    scaled = scale_channels(channels)
    batch, in_h, in_w, in_c = op.x.shape
    _, out_h, out_w, out_c = op.y.shape
    params: Params = {
        **{"weights": prepared_weights(scaled.weights, in_c), "constants": packed_constants(scaled)},
        **{"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c},
        **{"out_h": out_h, "out_w": out_w, "out_c": out_c},
        **{"pad_top": op.padding[0], "pad_left": op.padding[1], "in_zp": op.x.zero_point},
        **{"low": op.low, "high": op.high},
    }
    return (Call(ROUTINE, params, (op.x,), op.y),)


def prepared_weights(weights: Int8Array, in_c: int) -> Int32Array:
    """Gives weights as they are multiplied: by places, column by column, with inputs 0 and 2, 1 and 3 of every four in words."""
    windows = weights.reshape(-1, 2, 3, 3, in_c // 4, 2, 2).astype(np.int64)
    places = np.einsum("ir,jc,porcqkh->pjiqhok", OF_ROWS, OF_COLUMNS, windows)
    return np.ascontiguousarray(places.astype(np.int16)).reshape(-1).view(np.int32)


def packed_constants(scaled: Scaled) -> Int32Array:
    """Gives four times the biases of each pair of channels, then round, multiplier and right shift of both."""
    scales = np.stack([scaled.rounds, scaled.multipliers, scaled.rights], axis=1)
    return pack.stream_of(4 * scaled.sums.reshape(-1, 2), scales.reshape(-1, 6))


KERNEL = DSP.row(
    Conv2d,
    calls,
    takes,
    name="conv2d_winograd",
    scratch_bytes=scratch,
    overread_bytes=1,
    work=work,
    further_flash=further_bytes,
    own_constants=True,
    row_unit=2,
)
