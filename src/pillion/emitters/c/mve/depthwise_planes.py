# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolutions over planes of 16 channels, or of eight of 16 bits: constants, conditions and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array, OutputChannels, channels_of
from pillion.emitters.c.mve import pack
from pillion.ir.numerics import INT32_MAX
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Convolution

PLANE_BYTES = 8192
"""The target size of a plane, which limits the output rows for each block."""
WIDE_ORDER = tuple(np.arange(16).reshape(4, 4).T[[0, 2, 1, 3]].reshape(-1).tolist())
"""The order of 16 channels' sums in four vectors."""
ANY_WORK = {1: (236.0, 53.6, 23.0, 28.0, 8.3, 5.5), 2: (80.0, 21.0, 14.2, 12.0, 18.0, 4.7)}
"""Instructions of the kernels of any window by bytes per input, fitted to counts in the emulator: per channel group,
per output, per pair of taps, per output row, per row of the plane, and per copied column."""
WIDE_WORK = {1: (154.0, 127.4, 12.6, 16.3, 4.6), 2: (80.0, 65.0, 8.0, 21.0, 4.4)}
"""Instructions of the 3x3 kernels by bytes per input, fitted likewise: per channel group, per output, per output row,
per row of the plane, and per copied column."""
WIDE_START = {1: 220.0, 2: 0.0}
"""Instructions of the 3x3 kernels per image, in addition to `WIDE_WORK`."""


def verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_depthwise_any_s8_mve is exact."""
    return (*of_bytes(op), pack.check_right_shifts(op))


def of_bytes(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether the loops compute int8 sums exactly."""
    return sums_verdicts(op, channels_of(op).with_folded_zero_point.weights)


def sums_verdicts(op: Convolution, weights: Int8Array) -> tuple[Verdict, ...]:
    """Checks whether pairs of products fit 16 bits, and whether windows see the image."""
    taps = np.abs(_odd_taps(weights).astype(np.int64))
    pair = int((taps[:, :-1:2] + taps[:, 1::2]).max(initial=0))
    return (
        Verdict("weights", pair <= 255, "magnitudes of two taps add up to at most 255", str(pair)),
        reaches_image(op),
    )


def reaches_image(op: Convolution) -> Verdict:
    """Checks whether windows see a column of the image."""
    return Verdict(
        "columns", used_column_count(op) > 0, "windows reach the image", f"padding {op.padding[1]}"
    )


def is_3x3(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether a window is 3x3 without dilation."""
    return (
        pack.kernel_has_sizes(op, "kernel", "3x3", (3, 3)),
        pack.kernel_has_sizes(op, "dilation", "1", (1, 1)),
    )


def verdicts_3x3(op: Convolution) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_depthwise_3x3_wide_s8_mve is exact."""
    return (*is_3x3(op), *of_bytes(op), pack.check_optional_fix(op))


def _odd_taps(weights: Int8Array) -> Int8Array:
    """Returns the weights, padded with a zero tap to an odd number."""
    return np.pad(weights, ((0, 0), (0, 1 - weights.shape[1] % 2)))


@dataclass(frozen=True)
class Plane:
    """The input rows of a block of output rows, 16 channels wide."""

    window: tuple[int, int]
    row_bytes: int
    block_rows: int
    bytes: int


def plane_of(op: Convolution) -> Plane:
    """Returns the layout of a padded block of rows."""
    h, w = ((k - 1) * d + 1 for k, d in zip(op.kernel, op.dilation, strict=True))
    row_bytes = 16 * ((op.y.shape[2] - 1) * op.stride[1] + w)
    most = max((PLANE_BYTES // row_bytes - h) // op.stride[0] + 1, 1)
    blocks = -(-op.y.shape[1] // most)
    block_rows = -(-op.y.shape[1] // blocks)
    return Plane((h, w), row_bytes, block_rows, ((block_rows - 1) * op.stride[0] + h) * row_bytes)


def used_column_count(op: Convolution) -> int:
    """Returns the image columns inside the windows; not positive if all windows see padding only."""
    return min(plane_of(op).row_bytes // 16 - op.padding[1], op.x.shape[2])


def scratch_bytes(op: Convolution) -> int:
    """Returns the scratch bytes of the kernel of any window: one plane."""
    return plane_of(op).bytes


def fits_in_place(op: Convolution) -> bool:
    """Whether the result may overwrite the image: all rows of a plane are read before its results are written."""
    return op.in_channels == op.out_channels and plane_of(op).block_rows == op.y.shape[1]


def _copied_rows(op: Convolution) -> int:
    """Returns the rows of the image that are copied into planes for some channels."""
    plane, stride, first = plane_of(op), op.stride[0], op.padding[0]
    tops = range(-first, op.y.shape[1] * stride - first, plane.block_rows * stride)
    rows = plane.bytes // plane.row_bytes
    return sum(max(min(top + rows, op.x.shape[1]) - max(top, 0), 0) for top in tops)


def work_3x3(op: Convolution) -> float:
    """Estimates the instructions of the 3x3 kernel."""
    (out_h, out_w), rows = op.y.shape[1:3], _copied_rows(op)
    counts = (1, out_h * out_w, out_h, rows, rows * used_column_count(op))
    size = op.x.dtype.size_bytes
    return op.x.shape[0] * (WIDE_START[size] + _planes(op) * float(np.dot(WIDE_WORK[size], counts)))


def _planes(op: Convolution) -> int:
    """Returns the number of planes that hold the inputs of all outputs."""
    return -(-op.out_channels * op.x.dtype.size_bytes // 16)


def work(op: Convolution) -> float:
    """Estimates the instructions of the kernel of any window."""
    (out_h, out_w), rows = op.y.shape[1:3], _copied_rows(op)
    pairs = op.kernel[0] * op.kernel[1] // 2
    counts = (1, out_h * out_w, out_h * out_w * pairs, out_h, rows, rows * used_column_count(op))
    return op.x.shape[0] * _planes(op) * float(np.dot(ANY_WORK[op.x.dtype.size_bytes], counts))


def params(op: Convolution) -> pack.Params:
    """Returns the parameters of both kernels with int8 results."""
    return {**layout_params(op), "constants": pack_wide(channels_of(op).with_folded_zero_point)}


def left_verdicts(op: Convolution) -> tuple[Verdict, ...]:
    """Checks the conditions under which pillion_depthwise_any_left_s8_mve is exact."""
    return (*of_bytes(op), pack.check_left_shifts(op))


def left_params(op: Convolution) -> pack.Params:
    """Returns the parameters of the kernel that shifts sums left."""
    channels = channels_of(op)
    return {**layout_params(op), "constants": pack_left(channels, int(pack.negative_sum_mode(channels) == 1))}


def layout_params(op: Convolution) -> pack.Params:
    """Returns the parameters of both kernels but for the constants."""
    plane = plane_of(op)
    rows, columns = (np.arange(k) * d for k, d in zip(op.kernel, op.dilation, strict=True))
    taps = (rows[:, None] * plane.row_bytes + columns * 16).reshape(-1)
    taps = np.pad(taps, (0, 1 - len(taps) % 2))
    return {
        "in_row_bytes": op.x.shape[2] * pack.pixel_bytes(op),
        "channels": op.out_channels,
        "filters": op.out_channels // op.in_channels,
        "left_bytes": 16 * op.padding[1],
        "copy_w": used_column_count(op),
        "plane_row_bytes": plane.row_bytes,
        "window_rows": plane.window[0],
        "window_step": 16 * op.stride[1],
        "window_skip": op.stride[0] * plane.row_bytes - op.y.shape[2] * op.stride[1] * 16,
        "block_rows": plane.block_rows,
        "scratch_bytes": plane.bytes,
        "tap_count": len(taps),
        "taps": taps.astype(np.int32),
    }


def pack_wide(
    ready: OutputChannels, order: Sequence[int] = WIDE_ORDER, has_shifts: bool = True
) -> Int32Array:
    """Packs channels with folded zero points in groups; `order` is the order of their sums in vectors."""
    sums, multipliers, shifts = _wide_parts(ready, order)
    return pack.join_groups(*sums, multipliers, *[shifts.astype(np.int8)] * has_shifts)


def pack_left(channels: OutputChannels, more: int) -> Int32Array:
    """Packs channels whose sums are shifted left. The factors of right shifts are larger by `more`."""
    sums, multipliers, shifts = _wide_parts(channels.with_folded_zero_point, WIDE_ORDER)
    factors = (np.int64(1) << 31 + np.minimum(shifts, 0)) + more
    lefts = np.maximum(shifts, 0).astype(np.int8)
    return pack.join_groups(*sums, lefts, multipliers, np.minimum(factors, INT32_MAX).astype(np.int32))


def _wide_parts(
    ready: OutputChannels, order: Sequence[int]
) -> tuple[tuple[Int32Array, Int8Array], Int32Array, Int32Array]:
    """Returns biases and weights, multipliers, and shifts of channels in groups."""
    g = pack.group_channels(replace(ready, weights=_odd_taps(ready.weights)), range(len(order)), unit=1)
    bias, multipliers, shifts = (part[:, order] for part in (g.bias, g.multipliers, g.shifts))
    return (bias, g.weights.swapaxes(1, 2)), multipliers, shifts
