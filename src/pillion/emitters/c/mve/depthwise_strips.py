# SPDX-License-Identifier: Apache-2.0
"""Constants and tables of the Helium depthwise convolutions over channels in strips, and what these need to be exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Channels, Int32Array, fold_input_offset
from pillion.emitters.c.mve.pack import Geometry, Params, levels, right_shifts
from pillion.ir import numerics
from pillion.ir.verdict import Verdict, all_ok

UINT16_MAX = 2**16 - 1


@dataclass(frozen=True)
class Axis:
    """One direction of an image: input and output size, padding before, bytes from one element to the next in x, y."""

    in_size: int
    out_size: int
    before: int
    x_step: int
    y_step: int


@dataclass(frozen=True)
class Strips:
    """A channel in strips of four padded rows, two apart: each holds the windows of two rows of outputs at stride 1, of
    one at stride 2. A block of eight outputs is two rows of four columns, or one row of eight."""

    down: Axis
    along: Axis
    transposed: bool
    stride: int

    @property
    def rows(self) -> int:
        """The rows of outputs that a strip gives."""
        return 3 - self.stride

    @property
    def block(self) -> int:
        """The columns of outputs in a block."""
        return 4 * self.stride

    @property
    def count(self) -> int:
        """The number of strips that give all outputs."""
        return -(-self.down.out_size // self.rows)

    @property
    def columns(self) -> int:
        """The columns of the padded image that the windows reach."""
        return self.stride * self.along.out_size + 2

    @property
    def filled(self) -> int:
        """The columns that the image fills, the others being padding."""
        return min(self.along.in_size, self.columns - self.along.before)

    @property
    def bytes(self) -> int:
        """The bytes of all strips of a channel."""
        return self.count * self.columns * 4


def strips_of(g: Geometry) -> Strips:
    """Gives the layout in strips; the longer side of the output lies along them."""
    (h, w), (out_h, out_w) = g.in_size, g.out_size
    rows = Axis(h, out_h, g.pad_top, w * g.in_c, out_w * g.in_c)
    columns = Axis(w, out_w, g.pad_left, g.in_c, g.in_c)
    transposed = out_h > out_w
    return Strips(*((columns, rows) if transposed else (rows, columns)), transposed, g.stride[0])


def depthwise_3x3_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_depthwise_3x3_s8_mve needs to be exact."""
    return _strip_verdicts(g, channels, 1)


def depthwise_3x3_stride2_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_depthwise_3x3_stride2_s8_mve needs to be exact."""
    return _strip_verdicts(g, channels, 2)


def _strip_verdicts(g: Geometry, channels: Channels, stride: int) -> tuple[Verdict, ...]:
    shape = (
        Verdict("kernel", g.kernel == (3, 3), "3x3", "x".join(map(str, g.kernel))),
        Verdict("stride", g.stride == (stride, stride), str(stride), "x".join(map(str, g.stride))),
        Verdict("dilation", g.dilation == (1, 1), "1", "x".join(map(str, g.dilation))),
        Verdict("multiplier", g.in_c == g.out_c, "one filter for a channel", str(g.out_c // g.in_c)),
    )
    if not all_ok(shape):
        return shape  # strips are of stride 1 or 2
    s = strips_of(g)
    inner = s.down.before <= 2 and 2 * s.count - s.down.before <= s.down.in_size
    reach = max(
        s.along.x_step * 7 + s.down.x_step, max(max(_lanes(s, run.rows, run.block)) for run in _runs(s))
    )
    long_enough = s.along.out_size >= s.block and s.filled >= 8
    return (
        *shape,
        Verdict(
            "padding",
            inner,
            "at most two rows before and behind",
            f"{s.down.before} before {s.down.in_size} rows",
        ),
        Verdict("image", long_enough, f"8 long, outputs {s.block} long", f"{g.in_size} to {g.out_size}"),
        Verdict("row", reach <= UINT16_MAX, f"two rows within {UINT16_MAX} bytes", str(reach)),
        right_shifts(channels),
        small_sums(channels, s.along.out_size // s.block),
    )


def small_sums(channels: Channels, factor: int) -> Verdict:
    """Judges whether sums leave room for the sign fix, which multiplies them by a number of up to `factor`."""
    ready = fold_input_offset(channels)
    w = numerics.row_magnitudes(ready.weights)
    largest = int((128 * w + np.abs(ready.wrapped_bias.astype(np.int64))).max())
    limit = 2**31 // max(factor, 1)
    return Verdict("sum", largest < limit, f"below {limit}", f"up to {largest}")


def depthwise_3x3_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the 3x3 kernels, which are the same for both strides."""
    s = strips_of(g)
    return {
        "images": g.images,
        "image_bytes": g.in_size[0] * g.in_size[1] * g.in_c,
        "output_bytes": g.out_size[0] * g.out_size[1] * g.out_c,
        "channels": g.in_c,
        "strip_bytes": s.bytes,
        "build": _build(s, channels.in_zp),
        "passes": np.concatenate(_passes(s)),
        "kernels": _kernels(channels, s.transposed),
        "numbers": channel_numbers(channels),
        **levels(channels),
        "relu": int(channels.is_rectified),
    }


def depthwise_3x3_scratch(g: Geometry) -> int:
    """Gives the scratch of the 3x3 kernels: a channel in strips."""
    return strips_of(g).bytes


STRIPS_WORK = {1: (50.0, 28.7, 7.1, 29.1, 10.4), 2: (75.0, 24.2, 7.2, 36.2, 6.3)}
"""Instructions by stride, fitted to counts in the emulator: of a channel, of a block of columns, of each further strip in it; of a
block of outputs, of each run of those."""
LONE_ROW = 6.3
"""Instructions that a block takes more where it is a row of eight outputs."""
SINGLE_BLOCK = 13.0
"""Instructions of a block of columns of a single strip without predicates."""


def strips_work(g: Geometry) -> float:
    """Estimates the instructions of the 3x3 kernels by strips."""
    s = strips_of(g)
    channel, first, further, block, run = STRIPS_WORK[s.stride]
    of_columns = SINGLE_BLOCK if _single(s) else first + further * (s.count - 1)
    outputs = sum(
        (r.end - r.first) * (run + r.blocks * (block + LONE_ROW * (r.block > s.block))) for r in _runs(s)
    )
    return g.images * g.in_c * (channel + -(-s.filled // 8) * of_columns + outputs)


def _kernels(channels: Channels, transposed: bool) -> NDArray[np.int8]:
    """A zero, then of each channel three columns of three weights and a zero."""
    taps = fold_input_offset(channels).weights.reshape(-1, 3, 3)
    columns = taps if transposed else taps.swapaxes(1, 2)
    return np.pad(np.pad(columns, ((0, 0), (0, 0), (0, 1))).reshape(-1), (1, 0))


def channel_numbers(channels: Channels) -> Int32Array:
    """Gives bias, multiplier and shift of each channel."""
    ready = fold_input_offset(channels)
    return np.stack([ready.wrapped_bias, ready.multipliers, ready.shifts], axis=1).reshape(-1)


def _halfwords(offsets: list[int]) -> Int32Array:
    return np.array(offsets, np.uint16).view(np.int32)


def _build(s: Strips, zp: int) -> Int32Array:
    """The table pillion_mve_strip_build (kernels/mve/strips.h)."""
    down, along = s.down, s.along
    top, bottom = -down.before, 2 * s.count - down.before
    blocks = -(-s.filled // 8)
    second = s.filled - 8 * (blocks - 1)
    columns = [i * along.x_step for i in range(8)]
    words = [
        *(2 * down.x_step, 4 * s.columns, s.count - 1, blocks),
        *(second * along.x_step, 4 * second, 8 * along.x_step, 32),
        *(0xFFFF * (0 <= row < down.in_size) for row in (top, top + 1, bottom, bottom + 1)),
        *(top * down.x_step, 4 * along.before, zp, _single(s)),
    ]
    offsets = _halfwords(columns + [c + down.x_step for c in columns])
    return np.concatenate([np.array(words, np.int32), offsets])


def _single(s: Strips) -> int:
    """The rows of a single strip inside the image, if those that count all are: 4 or 3, else 0."""
    down = s.down
    first, rows_wanted = -down.before, s.down.out_size
    if s.count != 1 or first < 0 or first + 3 > down.in_size:
        return 0
    if first + 4 <= down.in_size:
        return 4
    return 3 if s.stride == 2 or rows_wanted == 1 else 0


@dataclass(frozen=True)
class Run:
    """Blocks of outputs of some strips: from which strip on and before which one, from which column on and how many; `rows`
    of outputs come from a strip, `block` columns of them from a block."""

    first: int
    end: int
    column: int
    blocks: int
    rows: int
    block: int


LONE_BLOCK = 8
"""The columns of outputs in a block of a strip with one row of outputs, at stride 1."""


def _runs(s: Strips) -> list[Run]:
    """Blocks of all strips, then one at the end of each where some outputs are left. A last strip with but one row of
    outputs of two has runs of its own."""
    whole = s.down.out_size // s.rows
    parts = [(0, whole, s.rows, s.block)] * (whole > 0)
    if s.count > whole:
        parts.append((whole, s.count, 1, LONE_BLOCK if s.along.out_size >= LONE_BLOCK else s.block))
    runs = []
    for first, end, rows, block in parts:
        blocks, rest = divmod(s.along.out_size, block)
        runs.append(Run(first, end, 0, blocks, rows, block))
        if rest:
            runs.append(Run(first, end, s.along.out_size - block, 1, rows, block))
    return runs


def _passes(s: Strips) -> list[Int32Array]:
    runs = _runs(s)
    return [_pass(s, run, last=run == runs[-1]) for run in runs]


def _pass(s: Strips, run: Run, last: bool) -> Int32Array:
    """The table pillion_mve_strip_pass (kernels/mve/strips.h)."""
    down, along = s.down, s.along
    start = 4 * s.stride * run.column
    words = [
        4 * (s.columns - s.stride * run.block * run.blocks),
        run.rows * down.y_step - run.block * run.blocks * along.y_step,
        *(run.blocks, run.block * along.y_step),
        *(4 * run.first * s.columns + start, 4 * run.end * s.columns + start),
        *(
            s.rows * run.first * down.y_step + run.column * along.y_step,
            int(last) + 2 * (run.block > s.block),
        ),
    ]
    return np.concatenate([np.array(words, np.int32), _halfwords(_lanes(s, run.rows, run.block))])


def _lanes(s: Strips, rows: int, block: int) -> list[int]:
    """Offsets of a block's outputs in the order of the lanes: two halves of a block, side by side. Of two rows, the lower one
    comes first, and on top of the upper one where it is not wanted."""
    half_block = block // 2
    if block == LONE_BLOCK:
        return [(c + half_block * half) * s.along.y_step for c in range(4) for half in (0, 1)]
    lower = s.down.y_step * (rows - 1)
    return [
        row + (c + half_block * half) * s.along.y_step
        for row in (lower, 0)
        for c in (0, 1)
        for half in (0, 1)
    ]
