# SPDX-License-Identifier: Apache-2.0
"""The Helium 3x3 depthwise convolutions over channels in strips: constants, tables, conditions and cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int8Array, Int32Array, channels_of
from pillion.emitters.c.mve.pack import Params, check_optional_fix, kernel_has_sizes
from pillion.ir import numerics
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Convolution

UINT16_MAX = 2**16 - 1
BAND = 12
"""The strips of a band, about. Bands of 8 need two thirds of the memory, and up to 8 percent more instructions."""


@dataclass(frozen=True)
class ConvAxis:
    """One axis of an image: input and output size, padding before it, byte steps in x and y."""

    in_size: int
    out_size: int
    before: int
    x_step: int
    y_step: int


@dataclass(frozen=True)
class Strips:
    """A channel in strips of four padded rows, two apart: each strip holds the windows of two output rows at
    stride 1, of one at stride 2. A block of eight outputs is two rows of four columns, or one row of eight."""

    down: ConvAxis
    along: ConvAxis
    transposed: bool
    stride: int
    element_bytes: int

    @property
    def rows(self) -> int:
        """The output rows of a strip."""
        return 3 - self.stride

    @property
    def block(self) -> int:
        """The output columns of a block."""
        return 4 * self.stride

    @property
    def column_bytes(self) -> int:
        """The bytes of a column of a strip."""
        return 4 * self.element_bytes

    @property
    def count(self) -> int:
        """The number of strips."""
        return -(-self.down.out_size // self.rows)

    @property
    def columns(self) -> int:
        """The columns of the padded image inside the windows."""
        return self.stride * self.along.out_size + 2

    @property
    def image_columns(self) -> int:
        """The columns with image data; padding fills the other columns."""
        return min(self.along.in_size, self.columns - self.along.before)

    @property
    def has_bands(self) -> bool:
        """Whether a band's outputs, written over the image, leave the rows of later bands intact."""
        is_as_large = all(axis.out_size == axis.in_size for axis in (self.along, self.down))
        return self.element_bytes == 2 and (is_as_large or not self.transposed)

    @property
    def bands(self) -> list[range]:
        """The strips of each band of a channel."""
        number = (self.count + BAND // 2) // BAND if self.has_bands else 1
        size = -(-self.count // max(number, 1))
        while (
            self.count % size == 1
        ):  # the band before makes the first strip of the last one, which makes others
            size += 1
        return [range(first, min(first + size, self.count)) for first in range(0, self.count, size)]

    @property
    def strip_bytes(self) -> int:
        """The size of a strip."""
        return self.columns * self.column_bytes

    def step(self, band: range) -> int:
        """Returns the bytes from a strip of a band to the next one. Every second band goes back: it begins with the strip that the band
        before made for it, where that lies."""
        return -self.strip_bytes if band.start // len(self.bands[0]) % 2 else self.strip_bytes

    def offset(self, band: range, strip: int) -> int:
        """Returns the offset of a strip of a band."""
        step = self.step(band)
        return (len(self.bands[0]) * self.strip_bytes if step < 0 else 0) + (strip - band.start) * step

    @property
    def bytes(self) -> int:
        """The size of a band and of the first strip of the next; lower rows of halfwords are read to one element beyond."""
        bands = self.bands
        return (len(bands[0]) + (len(bands) > 1)) * self.strip_bytes + (self.element_bytes == 2) * 4


def strips_of(op: Convolution) -> Strips:
    """Returns the layout in strips; the longer side of the output lies along them."""
    (h, w), (out_h, out_w) = op.x.shape[1:3], op.y.shape[1:3]
    x_pixel, y_pixel = (v.shape[3] * v.dtype.size_bytes for v in (op.x, op.y))
    rows = ConvAxis(h, out_h, op.padding[0], w * x_pixel, out_w * y_pixel)
    columns = ConvAxis(w, out_w, op.padding[1], x_pixel, y_pixel)
    transposed = out_h > out_w
    axes = (columns, rows) if transposed else (rows, columns)
    return Strips(*axes, transposed, op.stride[0], op.x.dtype.size_bytes)


def verdicts(stride: int) -> Callable[[Convolution], tuple[Verdict, ...]]:
    """Returns the conditions under which the 3x3 kernel of a stride is exact."""

    def exact(op: Convolution) -> tuple[Verdict, ...]:
        shape = shape_verdicts(op, stride)
        if not all_ok(shape):
            return shape
        s = strips_of(op)
        return *shape, check_optional_fix(op), small_sums(op, s.along.out_size // s.block)

    return exact


def shape_verdicts(op: Convolution, stride: int) -> tuple[Verdict, ...]:
    """Checks whether an image lies in strips, and whether offsets in two rows fit 16 bits."""
    shape = (
        kernel_has_sizes(op, "kernel", "3x3", (3, 3)),
        kernel_has_sizes(op, "stride", str(stride), (stride, stride)),
        kernel_has_sizes(op, "dilation", "1", (1, 1)),
    )
    if not all_ok(shape):
        return shape  # strips exist for stride 1 and 2 only
    s = strips_of(op)
    inner = s.down.before <= 2 and 2 * s.count - s.down.before <= s.down.in_size
    reach = max(
        s.along.x_step * 7 + s.down.x_step,
        max(max(_lane_output_offsets(s, run.rows, run.block)) for run in _split_into_strip_runs(s)),
    )
    long_enough = s.along.out_size >= s.block and s.image_columns >= 8
    return (
        *shape,
        Verdict(
            "padding",
            inner,
            "at most two rows before and behind",
            f"{s.down.before} before {s.down.in_size} rows",
        ),
        Verdict(
            "image", long_enough, f"8 long, outputs {s.block} long", f"{op.x.shape[1:3]} to {op.y.shape[1:3]}"
        ),
        Verdict("row", reach <= UINT16_MAX, f"two rows within {UINT16_MAX} bytes", str(reach)),
    )


def small_sums(op: Convolution, factor: int) -> Verdict:
    """Checks whether sums times `factor` fit 32 bits, as the sign correction needs."""
    ready = channels_of(op).with_folded_zero_point
    w = numerics.row_magnitudes(ready.weights)
    largest = int((128 * w + np.abs(ready.wrapped_bias.astype(np.int64))).max())
    limit = 2**31 // max(factor, 1)
    return Verdict("sum", largest < limit, f"below {limit}", f"up to {largest}")


def params(op: Convolution) -> Params:
    """Returns the parameters of the 3x3 kernels with int8 results, for either stride."""
    weights = channels_of(op).with_folded_zero_point.weights
    return {**layout_params(op, weights), "numbers": channel_numbers(op)}


def layout_params(op: Convolution, weights: Int8Array) -> Params:
    """Returns the parameters of 3x3 kernels but for the numbers of channels."""
    s = strips_of(op)
    return {
        "image_bytes": op.x.type.size_bytes // op.x.shape[0],
        "output_bytes": op.y.type.size_bytes // op.y.shape[0],
        "filters": op.out_channels // op.in_channels,
        "strip_bytes": s.bytes,
        "build": np.concatenate([_strip_build_table(s, band, op.x.zero_point) for band in s.bands]),
        "passes": np.concatenate([table for band in s.bands for table in _pass_tables(s, band)]),
        "kernels": _pack_kernel_columns(weights, s.transposed),
    }


def scratch_bytes(op: Convolution) -> int:
    """Returns the scratch bytes of the 3x3 kernels: a channel in strips, or a band of it."""
    return strips_of(op).bytes


STRIPS_WORK = {
    (1, 1): (50.0, 28.7, 7.1, 29.1, 10.4),
    (1, 2): (75.0, 24.2, 7.2, 36.2, 6.3),
    (2, 1): (85.0, 40.0, 9.6, 35.2, 8.0),
    (2, 2): (60.0, 36.0, 9.2, 38.0, 7.0),
}
"""Instructions by bytes per element and stride, fitted to counts in the emulator, per channel, per block of columns,
per further strip in a block, per block of eight outputs, and per run of blocks."""
LONE_ROW = 6.3
"""Additional instructions of a block of bytes that is one row of eight outputs."""
FURTHER_BAND = 15.0
"""Instructions of a block of columns in each further band."""
SINGLE_BLOCK = 13.0
"""Instructions of a block of columns of a single strip of bytes without predication."""


def work(op: Convolution) -> float:
    """Estimates the instructions of the 3x3 kernels."""
    s = strips_of(op)
    channel, first, further, eight, run = STRIPS_WORK[s.element_bytes, s.stride]
    is_single = s.element_bytes == 1 and _single_strip_rows(s)
    of_columns = SINGLE_BLOCK if is_single else first + further * (s.count - 1)
    of_columns += FURTHER_BAND * (len(s.bands) - 1)
    outputs = sum(
        (r.end - r.first)
        * (run + r.blocks * (eight + LONE_ROW * (s.element_bytes == 1 and r.block > s.block)))
        for r in _split_into_strip_runs(s)
    )
    return op.x.shape[0] * (
        op.in_channels * -(-s.image_columns // 8) * of_columns + op.out_channels * (channel + outputs)
    )


def _pack_kernel_columns(weights: Int8Array, transposed: bool) -> NDArray[np.int8]:
    """Returns a zero, then for each channel three columns of three weights and a zero."""
    taps = weights.reshape(-1, 3, 3)
    columns = taps if transposed else taps.swapaxes(1, 2)
    return np.pad(np.pad(columns, ((0, 0), (0, 0), (0, 1))).reshape(-1), (1, 0))


def channel_numbers(op: Convolution) -> Int32Array:
    """Returns bias, multiplier and shift of each channel."""
    ready = channels_of(op).with_folded_zero_point
    return np.stack([ready.wrapped_bias, ready.multipliers, ready.shifts], axis=1).reshape(-1)


def _pack_halfwords(offsets: list[int]) -> Int32Array:
    return np.array(offsets, np.uint16).view(np.int32)


def _strip_build_table(s: Strips, band: range, zp: int) -> Int32Array:
    """Returns the table pillion_mve_strip_build, or of halfwords pillion_mve_strip_band (kernels/mve/strips.h), of a band, which
    makes the first strip of the next one, too."""
    down, along = s.down, s.along
    is_later, is_last = band.start > 0, band.stop == s.count
    first, end = band.start + is_later, band.stop + (not is_last)
    top, bottom = (2 * strip - down.before for strip in (first, end))
    blocks = -(-s.image_columns // 8)
    second = s.image_columns - 8 * (blocks - 1)
    columns = [i * along.x_step for i in range(8)]
    words = [
        *(2 * down.x_step, s.step(band), end - first - 1, blocks),
        *(second * along.x_step, s.column_bytes * second, 8 * along.x_step, 8 * s.column_bytes),
        *(0xFFFF * (0 <= row < down.in_size) for row in (top, top + 1, bottom, bottom + 1)),
        *(
            top * down.x_step,
            s.column_bytes * along.before + s.offset(band, first),
            zp,
            _single_strip_rows(s),
        ),
    ]
    offsets = _pack_halfwords(columns + [c + down.x_step for c in columns])
    after = [0 if is_last else len(_split_into_strip_runs(s, band))] * (s.element_bytes == 2)
    return np.concatenate([np.array(words, np.int32), offsets, np.array(after, np.int32)])


def _single_strip_rows(s: Strips) -> int:
    """Returns the rows of a single strip, 4 or 3, if all rows in use lie inside the image; otherwise 0."""
    down = s.down
    first, rows_wanted = -down.before, s.down.out_size
    if s.count != 1 or first < 0 or first + 3 > down.in_size:
        return 0
    if first + 4 <= down.in_size:
        return 4
    return 3 if s.stride == 2 or rows_wanted == 1 else 0


@dataclass(frozen=True)
class StripRun:
    """Equal blocks of outputs: strips `first` to `end` (exclusive), `blocks` blocks from `column` on, each with
    `rows` output rows and `block` output columns."""

    first: int
    end: int
    column: int
    blocks: int
    rows: int
    block: int


LONE_BLOCK = 8
"""The output columns of a block with one output row, at stride 1."""


def _split_into_strip_runs(s: Strips, band: range | None = None) -> list[StripRun]:
    """Returns the runs of output blocks of all strips or of a band. Each run is followed by one for the remaining
    outputs at its end. A last strip with one output row instead of two has runs of its own."""
    some = band or range(s.count)
    full_strips = s.down.out_size // s.rows
    parts = [(0, full_strips, s.rows, s.block)] * (full_strips > 0)
    if s.count > full_strips:
        parts.append((full_strips, s.count, 1, LONE_BLOCK if s.along.out_size >= LONE_BLOCK else s.block))
    runs = []
    for start, stop, rows, block in parts:
        first, end = max(start, some.start), min(stop, some.stop)
        if first >= end:
            continue
        blocks, rest = divmod(s.along.out_size, block)
        runs.append(StripRun(first, end, 0, blocks, rows, block))
        if rest:
            runs.append(StripRun(first, end, s.along.out_size - block, 1, rows, block))
    return runs


def _pass_tables(s: Strips, band: range) -> list[Int32Array]:
    runs = _split_into_strip_runs(s, band)
    return [_pass_table(s, run, band, last=run == runs[-1]) for run in runs]


CARRIED_COLUMNS = 2
"""The columns of halfwords that the first windows find loaded."""


def _pass_table(s: Strips, run: StripRun, band: range, last: bool) -> Int32Array:
    """Returns the table pillion_mve_strip_pass (kernels/mve/strips.h) of a band."""
    down, along = s.down, s.along
    ends = (s.offset(band, strip) + s.column_bytes * s.stride * run.column for strip in (run.first, run.end))
    seen = s.stride * run.block * run.blocks + (s.element_bytes == 2) * CARRIED_COLUMNS
    words = [
        s.step(band) - s.column_bytes * seen,
        s.rows * down.y_step - run.block * run.blocks * along.y_step,
        *(run.blocks, run.block * along.y_step),
        *ends,
        s.rows * run.first * down.y_step + run.column * along.y_step,
        int(last) + 2 * (run.block > s.block),
    ]
    return np.concatenate(
        [np.array(words, np.int32), _pack_halfwords(_lane_output_offsets(s, run.rows, run.block))]
    )


def _lane_output_offsets(s: Strips, rows: int, block: int) -> list[int]:
    """Returns the offsets of a block's outputs in lane order: both halves of a block interleaved, or both rows of
    halfwords. The lower of two rows comes first; if it does not exist, it lies on the upper one."""
    half_block = block // 2
    if block == LONE_BLOCK:
        return [(c + half_block * half) * s.along.y_step for c in range(4) for half in (0, 1)]
    lower = s.down.y_step * (rows - 1)
    if s.element_bytes == 2:
        return [row + c * s.along.y_step for c in range(4) for row in (lower, 0)]
    return [
        row + (c + half_block * half) * s.along.y_step
        for row in (lower, 0)
        for c in (0, 1)
        for half in (0, 1)
    ]
