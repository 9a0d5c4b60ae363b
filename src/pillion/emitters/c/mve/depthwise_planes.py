# SPDX-License-Identifier: Apache-2.0
"""Constants of the Helium depthwise convolutions over planes of 16 channels, and what these need to be exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Channels, Int32Array, fold_input_offset
from pillion.emitters.c.mve.pack import Geometry, Params, as_words, right_shifts
from pillion.ir.verdict import Verdict

PLANE_BYTES = 8192
"""The bytes of input rows that decide how many output rows are made at a time."""
WIDE_ORDER = np.arange(16).reshape(4, 4).T[[0, 2, 1, 3]].reshape(-1)
"""How the sums of 16 channels lie in four vectors."""
ANY_WORK = (236.0, 53.6, 23.0, 28.0, 8.3, 5.5)
"""Instructions of the kernel of any window, fitted to counts in the emulator: of sixteen channels, of their outputs, of a pair of taps of
these, of rows of outputs; of rows of the plane, of what is copied into these."""
WIDE_WORK = (154.0, 127.4, 12.6, 16.3, 4.6)
"""Instructions, fitted to counts in the emulator: of sixteen channels, of their outputs, of rows of these; of rows of the plane, of what is copied into these."""


def depthwise_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_depthwise_any_s8_mve needs to be exact: two products, or one, in 16 bits."""
    taps = np.abs(_odd_taps(fold_input_offset(channels)).astype(np.int64))
    pair = int((taps[:, :-1:2] + taps[:, 1::2]).max(initial=0))
    return (
        Verdict("multiplier", g.in_c == g.out_c, "one filter for a channel", str(g.out_c // g.in_c)),
        Verdict("weights", pair <= 255, "magnitudes of two taps add up to at most 255", str(pair)),
        Verdict("columns", columns_of(g) > 0, "windows reach the image", f"padding {g.pad_left}"),
        right_shifts(channels),
    )


def depthwise_3x3_wide_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_depthwise_3x3_wide_s8_mve needs to be exact."""
    return (
        Verdict("kernel", g.kernel == (3, 3), "3x3", "x".join(map(str, g.kernel))),
        Verdict("dilation", g.dilation == (1, 1), "1", "x".join(map(str, g.dilation))),
        *depthwise_verdicts(g, channels),
    )


def _odd_taps(channels: Channels) -> NDArray[np.int8]:
    """The weights, with one more of nothing where their number is even."""
    return np.pad(channels.weights, ((0, 0), (0, 1 - channels.weights.shape[1] % 2)))


@dataclass(frozen=True)
class Plane:
    """The input rows of some output rows, 16 channels of them."""

    window: tuple[int, int]
    row_bytes: int
    block_rows: int
    bytes: int


def plane_of(g: Geometry) -> Plane:
    """Gives the layout of a padded block of rows, sixteen channels at a time."""
    h, w = ((k - 1) * d + 1 for k, d in zip(g.kernel, g.dilation, strict=True))
    row_bytes = 16 * ((g.out_size[1] - 1) * g.stride[1] + w)
    most = max((PLANE_BYTES // row_bytes - h) // g.stride[0] + 1, 1)
    blocks = -(-g.out_size[0] // most)
    block_rows = -(-g.out_size[0] // blocks)
    return Plane((h, w), row_bytes, block_rows, ((block_rows - 1) * g.stride[0] + h) * row_bytes)


def columns_of(g: Geometry) -> int:
    """Counts the columns of the image that lie in the windows: none where all windows see padding only."""
    return min(plane_of(g).row_bytes // 16 - g.pad_left, g.in_size[1])


def depthwise_scratch(g: Geometry) -> int:
    """Gives the scratch of the kernel of any window: one plane."""
    return plane_of(g).bytes


def depthwise_in_place(g: Geometry) -> bool:
    """Judges whether the result may lie over the image: all of an image's channels are read before they are written."""
    return plane_of(g).block_rows == g.out_size[0]


def wide_work(g: Geometry) -> float:
    """Estimates the instructions of the 3x3 kernel of sixteen channels at a time."""
    plane, (out_h, out_w) = plane_of(g), g.out_size
    rows = -(-out_h // plane.block_rows) * (plane.bytes // plane.row_bytes)
    counts = (1, out_h * out_w, out_h, rows, rows * columns_of(g))
    return g.images * -(-g.in_c // 16) * float(np.dot(WIDE_WORK, counts))


def any_work(g: Geometry) -> float:
    """Estimates the instructions of the kernel of any window."""
    plane, (out_h, out_w) = plane_of(g), g.out_size
    rows = -(-out_h // plane.block_rows) * (plane.bytes // plane.row_bytes)
    pairs = g.kernel[0] * g.kernel[1] // 2
    counts = (1, out_h * out_w, out_h * out_w * pairs, out_h, rows, rows * columns_of(g))
    return g.images * -(-g.in_c // 16) * float(np.dot(ANY_WORK, counts))


def depthwise_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the kernel of any window."""
    plane = plane_of(g)
    rows, columns = (np.arange(k) * d for k, d in zip(g.kernel, g.dilation, strict=True))
    taps = (rows[:, None] * plane.row_bytes + columns * 16).reshape(-1)
    taps = np.pad(taps, (0, 1 - len(taps) % 2))
    return {
        "images": g.images,
        "in_h": g.in_size[0],
        "in_row_bytes": g.in_size[1] * g.in_c,
        "channels": g.in_c,
        "out_h": g.out_size[0],
        "out_w": g.out_size[1],
        "stride_h": g.stride[0],
        "pad_top": g.pad_top,
        "left_bytes": 16 * g.pad_left,
        "copy_w": columns_of(g),
        "plane_row_bytes": plane.row_bytes,
        "window_rows": plane.window[0],
        "window_step": 16 * g.stride[1],
        "window_skip": g.stride[0] * plane.row_bytes - g.out_size[1] * g.stride[1] * 16,
        "block_rows": plane.block_rows,
        "scratch_bytes": plane.bytes,
        "tap_count": len(taps),
        "taps": taps.astype(np.int32),
        "constants": _pack_wide(channels),
        **{"in_zp": channels.in_zp, "out_zp": channels.out_zp, "low": channels.low, "high": channels.high},
    }


def _pack_wide(channels: Channels) -> Int32Array:
    ready = fold_input_offset(channels)
    missing = -len(ready.wrapped_bias) % 16
    weights = np.pad(_odd_taps(ready), ((0, missing), (0, 0)))
    bias, multipliers = np.pad(ready.wrapped_bias, (0, missing)), np.pad(ready.multipliers, (0, missing))
    shifts = np.pad(ready.shifts, (0, missing), constant_values=-1).astype(np.int8)
    parts = []
    for c in range(0, len(bias), 16):
        order = c + WIDE_ORDER
        parts += [bias[order], as_words(weights[c : c + 16].T), multipliers[order], as_words(shifts[order])]
    return np.concatenate(parts)
