# SPDX-License-Identifier: Apache-2.0
"""Constants and the layout of the Helium depthwise convolution by 5x5 (kernels/mve/depthwise_5x5_s8_mve.c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Channels, Int32Array, fold_input_offset
from pillion.emitters.c.mve.depthwise_strips import UINT16_MAX, channel_numbers, small_sums
from pillion.emitters.c.mve.pack import Geometry, Params, right_shifts
from pillion.ir.verdict import Verdict, all_ok

ROWS = 4
"""Rows of outputs that are made together."""
WINDOW_ROWS = 12
"""What their windows reach, at either stride."""
COLUMNS = 16
"""Columns of the image that are copied together."""
KERNEL_BYTES = 64
"""Bytes of scratch for the weights, with zeros between its rows and before them."""
TAPS = np.pad(np.arange(25).reshape(5, 5), ((0, 1), (0, 3)), constant_values=25).astype(np.uint8).reshape(-1)
"""Where its bytes come from: behind the weights of a channel is a zero."""
LEAST_OUTPUTS = 16
"""Smaller images take fewer instructions 16 channels at a time (wide.h)."""


@dataclass(frozen=True)
class Plane:
    """A padded channel, and which rows of outputs are made together: windows two rows of the plane apart."""

    row_bytes: int
    groups: tuple[tuple[int, ...], ...]
    rows: int

    @property
    def bytes(self) -> int:
        """The bytes of the plane."""
        return self.row_bytes * self.rows


def plane_of(g: Geometry) -> Plane:
    """Gives the layout of a padded channel, and which rows of outputs are made together."""
    stride, (out_h, out_w) = g.stride[0], g.out_size
    groups = tuple(group for first in range(3 - stride) for group in _groups(range(first, out_h, 3 - stride)))
    rows = stride * max(group[0] for group in groups) + WINDOW_ROWS
    return Plane(4 * ((out_w - 1) // _block(stride)) + 8, groups, rows)


def _groups(rows: range) -> list[tuple[int, ...]]:
    """By fours from the first one on; the last four end with the last row."""
    return [tuple(rows[max(min(i, len(rows) - ROWS), 0) :][:ROWS]) for i in range(0, len(rows), ROWS)]


def _block(stride: int) -> int:
    """Columns of outputs whose windows lie in eight columns."""
    return 4 // stride


def _copied(g: Geometry) -> tuple[int, int]:
    """Rows and columns of the image that the plane has room for: at least one, because windows reach the image but for
    a step of the stride, and the plane holds more than the windows."""
    plane = plane_of(g)
    return min(g.in_size[0], plane.rows - g.pad_top), min(g.in_size[1], plane.row_bytes - g.pad_left)


def depthwise_5x5_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_depthwise_5x5_s8_mve needs to be exact."""
    shape = (
        Verdict("kernel", g.kernel == (5, 5), "5x5", "x".join(map(str, g.kernel))),
        Verdict("stride", g.stride in ((1, 1), (2, 2)), "1 or 2", "x".join(map(str, g.stride))),
        Verdict("dilation", g.dilation == (1, 1), "1", "x".join(map(str, g.dilation))),
        Verdict("multiplier", g.in_c == g.out_c, "one filter for a channel", str(g.out_c // g.in_c)),
        Verdict(
            "image",
            g.out_size[0] >= ROWS and g.out_size[0] * g.out_size[1] >= LEAST_OUTPUTS,
            f"at least {ROWS} rows and {LEAST_OUTPUTS} pixels of outputs",
            "x".join(map(str, g.out_size)),
        ),
    )
    if not all_ok(shape):
        return shape
    reach = (COLUMNS - 1) * g.in_c
    return (
        *shape,
        Verdict("row", reach <= UINT16_MAX, f"{COLUMNS} pixels within {UINT16_MAX} bytes", str(reach)),
        right_shifts(channels),
        small_sums(channels, _block(g.stride[0])),
    )


def depthwise_5x5_scratch(g: Geometry) -> int:
    """Gives the scratch of the 5x5 kernel: a channel's weights, then its plane."""
    return KERNEL_BYTES + plane_of(g).bytes


WORK = (61.0, 8.2, 8.0, 12.8, 21.3, 28.0)
"""Instructions, fitted to counts in the emulator: of a channel, of blocks of columns that are copied, of rows of these; of groups of rows of
outputs, of blocks of columns of these, of columns."""


def depthwise_5x5_work(g: Geometry) -> float:
    """Estimates the instructions of the 5x5 kernel."""
    (rows, columns), groups, out_w = _copied(g), len(plane_of(g).groups), g.out_size[1]
    blocks, of_outputs = -(-columns // COLUMNS), -(-out_w // _block(g.stride[0]))
    counts = (1, blocks, rows * blocks, groups, groups * of_outputs, groups * out_w)
    return g.images * g.in_c * float(np.dot(WORK, counts))


def depthwise_5x5_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the 5x5 kernel."""
    return {
        "images": g.images,
        "image_bytes": g.in_size[0] * g.in_size[1] * g.in_c,
        "output_bytes": g.out_size[0] * g.out_size[1] * g.out_c,
        "channels": g.in_c,
        "plane_bytes": plane_of(g).bytes,
        "layout": np.concatenate([_build(g), _outputs(g)]),
        "kernels": np.pad(fold_input_offset(channels).weights, ((0, 0), (0, 1))).reshape(-1),
        "numbers": channel_numbers(channels),
        **{"in_zp": channels.in_zp, "out_zp": channels.out_zp, "low": channels.low, "high": channels.high},
    }


def _build(g: Geometry) -> Int32Array:
    """How a channel gets into the plane."""
    row_bytes, (rows, columns) = plane_of(g).row_bytes, _copied(g)
    blocks = -(-columns // COLUMNS)
    second = columns - COLUMNS * (blocks - 1)
    words = [
        *(g.in_size[1] * g.in_c, row_bytes, rows, blocks),
        *(second * g.in_c, second, COLUMNS * g.in_c, COLUMNS),
        *(g.pad_top * row_bytes + g.pad_left, (1 << min(columns, COLUMNS)) - 1),
    ]
    offsets = np.minimum(np.arange(COLUMNS), columns - 1) * g.in_c
    return np.concatenate([np.array(words, np.int32), _halfwords(offsets[0::2]), _halfwords(offsets[1::2])])


def _halfwords(offsets: NDArray[np.int64]) -> Int32Array:
    return offsets.astype(np.uint16).view(np.int32)


def _outputs(g: Geometry) -> Int32Array:
    """How outputs are made of it. A group of fewer than four rows writes its last row four, three or two times; the right
    outputs come last."""
    plane, stride, y_row = plane_of(g), g.stride[0], g.out_size[1] * g.out_c
    words = [*(0, 4, plane.row_bytes, plane.row_bytes + 4), g.out_size[1], _block(stride), stride, g.out_c]
    words += [*TAPS.view(np.int32), len(plane.groups)]
    for group in plane.groups:
        rows = [row - group[0] for row in (*group, *[group[-1]] * (ROWS - len(group)))]
        words += [row * y_row for row in reversed(rows)]
        words += [stride * group[0] * plane.row_bytes, group[0] * y_row]
    return np.array(words, np.int32)
