# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolutions over planes of 16 channels: constants, conditions and cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int32Array, OutputChannels
from pillion.emitters.c.mve.pack import ConvGeometry, Params, check_right_shifts, group_channels, join_groups
from pillion.ir.verdict import Verdict

PLANE_BYTES = 8192
"""The target size of a plane, which limits the output rows for each block."""
WIDE_ORDER = np.arange(16).reshape(4, 4).T[[0, 2, 1, 3]].reshape(-1)
"""The order of 16 channels' sums in four vectors."""
ANY_WORK = (236.0, 53.6, 23.0, 28.0, 8.3, 5.5)
"""Instructions of the kernel of any window, fitted to counts in the emulator: for 16 channels, their outputs,
pairs of taps of these, output rows, rows of the plane, and columns copied into these."""
WIDE_WORK = (154.0, 127.4, 12.6, 16.3, 4.6)
"""Instructions of the 3x3 kernel, fitted to counts in the emulator: for 16 channels, their outputs, output rows,
rows of the plane, and columns copied into these."""


def depthwise_verdicts(g: ConvGeometry, channels: OutputChannels) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_depthwise_any_s8_mve is exact: pairs of products fit 16 bits."""
    taps = np.abs(_odd_taps(channels.with_folded_zero_point).astype(np.int64))
    pair = int((taps[:, :-1:2] + taps[:, 1::2]).max(initial=0))
    return (
        Verdict("weights", pair <= 255, "magnitudes of two taps add up to at most 255", str(pair)),
        Verdict("columns", used_column_count(g) > 0, "windows reach the image", f"padding {g.pad_left}"),
        check_right_shifts(channels),
    )


def depthwise_3x3_wide_verdicts(g: ConvGeometry, channels: OutputChannels) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_depthwise_3x3_wide_s8_mve is exact."""
    return (g.has("kernel", "3x3", (3, 3)), g.has("dilation", "1", (1, 1)), *depthwise_verdicts(g, channels))


def _odd_taps(channels: OutputChannels) -> NDArray[np.int8]:
    """Returns the weights, padded with a zero tap to an odd number."""
    return np.pad(channels.weights, ((0, 0), (0, 1 - channels.weights.shape[1] % 2)))


@dataclass(frozen=True)
class Plane:
    """The input rows of a block of output rows, 16 channels wide."""

    window: tuple[int, int]
    row_bytes: int
    block_rows: int
    bytes: int


def plane_of(g: ConvGeometry) -> Plane:
    """Returns the layout of a padded block of rows."""
    h, w = ((k - 1) * d + 1 for k, d in zip(g.kernel, g.dilation, strict=True))
    row_bytes = 16 * ((g.out_size[1] - 1) * g.stride[1] + w)
    most = max((PLANE_BYTES // row_bytes - h) // g.stride[0] + 1, 1)
    blocks = -(-g.out_size[0] // most)
    block_rows = -(-g.out_size[0] // blocks)
    return Plane((h, w), row_bytes, block_rows, ((block_rows - 1) * g.stride[0] + h) * row_bytes)


def used_column_count(g: ConvGeometry) -> int:
    """Returns the image columns inside the windows; not positive if all windows see padding only."""
    return min(plane_of(g).row_bytes // 16 - g.pad_left, g.in_size[1])


def depthwise_scratch(g: ConvGeometry) -> int:
    """Returns the scratch bytes of the kernel of any window: one plane."""
    return plane_of(g).bytes


def depthwise_in_place(g: ConvGeometry) -> bool:
    """Whether the result may overwrite the image: all rows of 16 channels are read before they are written."""
    return g.in_c == g.out_c and plane_of(g).block_rows == g.out_size[0]


def depthwise_3x3_wide_work(g: ConvGeometry) -> float:
    """Estimates the instructions of the 3x3 kernel."""
    plane, (out_h, out_w) = plane_of(g), g.out_size
    rows = -(-out_h // plane.block_rows) * (plane.bytes // plane.row_bytes)
    counts = (1, out_h * out_w, out_h, rows, rows * used_column_count(g))
    return g.images * -(-g.out_c // 16) * float(np.dot(WIDE_WORK, counts))


def depthwise_any_work(g: ConvGeometry) -> float:
    """Estimates the instructions of the kernel of any window."""
    plane, (out_h, out_w) = plane_of(g), g.out_size
    rows = -(-out_h // plane.block_rows) * (plane.bytes // plane.row_bytes)
    pairs = g.kernel[0] * g.kernel[1] // 2
    counts = (1, out_h * out_w, out_h * out_w * pairs, out_h, rows, rows * used_column_count(g))
    return g.images * -(-g.out_c // 16) * float(np.dot(ANY_WORK, counts))


def depthwise_params(g: ConvGeometry, channels: OutputChannels) -> Params:
    """Returns the parameters of both kernels."""
    plane = plane_of(g)
    rows, columns = (np.arange(k) * d for k, d in zip(g.kernel, g.dilation, strict=True))
    taps = (rows[:, None] * plane.row_bytes + columns * 16).reshape(-1)
    taps = np.pad(taps, (0, 1 - len(taps) % 2))
    return {
        "in_row_bytes": g.in_size[1] * g.in_c,
        "channels": g.out_c,
        "filters": g.out_c // g.in_c,
        "left_bytes": 16 * g.pad_left,
        "copy_w": used_column_count(g),
        "plane_row_bytes": plane.row_bytes,
        "window_rows": plane.window[0],
        "window_step": 16 * g.stride[1],
        "window_skip": g.stride[0] * plane.row_bytes - g.out_size[1] * g.stride[1] * 16,
        "block_rows": plane.block_rows,
        "scratch_bytes": plane.bytes,
        "tap_count": len(taps),
        "taps": taps.astype(np.int32),
        "constants": _pack_wide(channels),
    }


def _pack_wide(channels: OutputChannels) -> Int32Array:
    ready = channels.with_folded_zero_point
    g = group_channels(replace(ready, weights=_odd_taps(ready)), range(16), unit=1)
    bias, multipliers, shifts = (part[:, WIDE_ORDER] for part in (g.bias, g.multipliers, g.shifts))
    return join_groups(bias, g.weights.swapaxes(1, 2), multipliers, shifts.astype(np.int8))
