# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as rows of ordinary convolutions.

An output row `stride * i + phase` reads input row i + o through each kernel row for which o is an integer. So
all rows of a phase are rows of one convolution with stride 1. The same holds along columns, where the outputs
of all phases are adjacent: they form one pixel of a convolution with `stride` times as many channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import Condition, short_circuit
from pillion.emitters.c.kernel_library import Library
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.types import TensorType, Value, constant_value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.transpose_conv import TransposeConv2d

ALIGNMENT = 16
"""The alignment of a row in scratch memory."""


@dataclass(frozen=True)
class SubpixelPhase:
    """A convolution that computes one output row, and the range of output rows of this phase."""

    conv: Conv2d
    first: int
    rows: int

    @property
    def first_and_last_row(self) -> Iterator[Conv2d]:
        """The convolutions of the first and of the last row; they alone may reach beyond the image."""
        top, left, bottom, right = self.conv.padding
        for row in (0, self.rows - 1):
            yield replace(self.conv, padding=(top - row, left, bottom, right))


def input_taps(kernel: int, stride: int, dilation: int, place: int) -> Mapping[int, int]:
    """Returns kernel tap → distance of the input that it reads, for an output at `place` before padding is
    cropped."""
    taps = ((tap, place - dilation * tap) for tap in range(kernel))
    return {tap: distance // stride for tap, distance in taps if distance % stride == 0}


def row_phases(op: TransposeConv2d) -> list[SubpixelPhase]:
    """Returns a phase for each output row between two input rows."""
    stride_h, height = op.stride[0], op.y.shape[1]
    counts = [(first, len(range(first, height, stride_h))) for first in range(stride_h)]
    return [SubpixelPhase(_subpixel_row_conv(op, first), first, rows) for first, rows in counts if rows]


def _subpixel_row_conv(op: TransposeConv2d, first: int) -> Conv2d:
    (kernel_h, kernel_w), (stride_h, stride_w) = op.kernel, op.stride
    down = input_taps(kernel_h, stride_h, op.dilation[0], first + op.padding[0])
    along = [input_taps(kernel_w, stride_w, op.dilation[1], x + op.padding[1]) for x in range(stride_w)]
    top, bottom = _distance_range(down.values())
    left, right = _distance_range([distance for taps in along for distance in taps.values()])
    shape = (stride_w, op.out_channels, bottom - top + 1, right - left + 1, op.in_channels)
    weights = np.zeros(shape, np.int8)
    for x, taps in enumerate(along):
        for ky, y_distance in down.items():
            for kx, x_distance in taps.items():
                weights[x, :, y_distance - top, x_distance - left] = op.weights.constant[:, ky, kx]
    channels = stride_w * op.out_channels
    y_shape = (op.y.shape[0], 1, -(-op.y.shape[2] // stride_w), channels)
    return Conv2d(
        x=op.x,
        weights=constant_value(f"{op.name}_weights_{first}", weights.reshape(channels, *shape[2:])),
        bias=constant_value(f"{op.name}_bias", np.tile(op.bias.constant, stride_w)),
        y=Value(f"{op.name}_row", TensorType(y_shape, op.y.dtype, op.y.type.quant)),
        padding=(-top, -left, 0, 0),
        low=op.low,
        high=op.high,
        explicit=_channel_multipliers(op) * stride_w,
    )


def _channel_multipliers(op: TransposeConv2d) -> Multipliers:
    """Returns the multiplier of each output channel."""
    known = op.effective_multipliers(Arithmetic.CMSIS_NN)
    return known if len(known) == op.out_channels else known * op.out_channels


def _distance_range(distances: Iterable[int]) -> tuple[int, int]:
    """Returns the first and the last distance, 0 included."""
    seen = (0, *distances)
    return min(seen), max(seen)


def kernel(
    library: Library, types: str, layer: Condition[Any], convolution: Kernel, *also: str, name: str = ""
) -> Kernel:
    """Builds the kernel of transposed convolutions of some types that runs the rows of each phase by a convolution kernel."""
    routine = library.routine(f"transpose_conv2d_{types}", *also)

    def calls(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
        return tuple(
            Call(
                routine,
                {**call.params, **phase_addresses(op, phase), "room": room_for_rows(op)},
                (op.x,),
                op.y,
            )
            for phase in row_phases(op)
            for call in convolution.calls(phase.conv, arithmetic)
        )

    def phases_fit(op: TransposeConv2d, arithmetic: Arithmetic) -> Iterable[Verdict]:
        return (v for phase in row_phases(op) for v in convolution.check(phase.conv, arithmetic))

    def room_for_rows(op: TransposeConv2d) -> int:
        rows = (row for phase in row_phases(op) for row in phase.first_and_last_row)
        return ALIGNMENT * -(-max(map(convolution.scratch_bytes, rows)) // ALIGNMENT)

    def scratch_bytes(op: TransposeConv2d) -> int:
        return room_for_rows(op) + row_bytes_beyond(op)

    return library.kernel_of_calls(
        TransposeConv2d,
        calls,
        name=name,
        requires=(short_circuit(layer, phases_fit),),
        scratch_bytes=scratch_bytes,
        overread_bytes=convolution.overread_bytes,
    )


def phase_addresses(op: TransposeConv2d, phase: SubpixelPhase) -> Params:
    """Returns the places of a phase's rows in the result as parameters."""
    _, height, width, channels = op.y.shape
    return {
        "rows": phase.rows,
        "y_offset": phase.first * width * channels,
        "y_row": op.stride[0] * width * channels,
        "y_image": height * width * channels,
        "kept": width * channels if row_bytes_beyond(op) else 0,
    }


def row_bytes_beyond(op: TransposeConv2d) -> int:
    """Returns the bytes of a row of whole strides if the result is narrower, otherwise 0."""
    pixels = -(-op.y.shape[2] // op.stride[1])
    whole = pixels * op.stride[1]
    return whole * op.out_channels * op.y.dtype.size_bytes if whole > op.y.shape[2] else 0
