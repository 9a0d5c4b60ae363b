# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as rows of ordinary convolutions.

Of an output at row `stride * i + phase`, the inputs at rows i + o meet the kernel's rows for which o is a whole number; so all
rows of a phase are rows of one convolution with stride 1. Along columns it is the same, and the outputs of all phases lie
side by side: they are one pixel of a convolution with `stride` times as many channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pillion.emitters.c.conditions import constants, int8
from pillion.emitters.c.kernel import Params
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.types import TensorType, Value, constant
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.transpose_conv import TransposeConv2d


@dataclass(frozen=True)
class Phase:
    """A row of outputs as a row of a convolution, and which rows of the image are of the same kind."""

    conv: Conv2d
    first: int
    rows: int


def reached(kernel: int, stride: int, dilation: int, place: int) -> Mapping[int, int]:
    """Tap of the kernel → how far from its own place an output sees the input. `place` is the output's, before
    padding was cut off."""
    taps = ((tap, place - dilation * tap) for tap in range(kernel))
    return {tap: distance // stride for tap, distance in taps if distance % stride == 0}


def phases(op: TransposeConv2d) -> list[Phase]:
    """Gives a phase for each row between two rows of inputs. The width is a multiple of the stride."""
    stride_h, height = op.stride[0], op.y.shape[1]
    counts = [(first, len(range(first, height, stride_h))) for first in range(stride_h)]
    return [Phase(_row(op, first), first, rows) for first, rows in counts if rows]


def _row(op: TransposeConv2d, first: int) -> Conv2d:
    (kernel_h, kernel_w), (stride_h, stride_w) = op.kernel, op.stride
    down = reached(kernel_h, stride_h, op.dilation[0], first + op.padding[0])
    along = [reached(kernel_w, stride_w, op.dilation[1], x + op.padding[1]) for x in range(stride_w)]
    top, bottom = _ends(down.values())
    left, right = _ends([distance for taps in along for distance in taps.values()])
    shape = (stride_w, op.out_channels, bottom - top + 1, right - left + 1, op.in_channels)
    weights = np.zeros(shape, np.int8)
    for x, taps in enumerate(along):
        for ky, y_distance in down.items():
            for kx, x_distance in taps.items():
                weights[x, :, y_distance - top, x_distance - left] = op.weights.constant[:, ky, kx]
    channels = stride_w * op.out_channels
    y_shape = (op.y.shape[0], 1, op.y.shape[2] // stride_w, channels)
    return Conv2d(
        x=op.x,
        weights=constant(f"{op.name}_weights_{first}", weights.reshape(channels, *shape[2:])),
        bias=constant(f"{op.name}_bias", np.tile(op.bias.constant, stride_w)),
        y=Value(f"{op.name}_row", TensorType(y_shape, op.y.dtype, op.y.type.quant)),
        padding=(-top, -left, 0, 0),
        low=op.low,
        high=op.high,
        given=_of_channels(op) * stride_w,
    )


def _of_channels(op: TransposeConv2d) -> Multipliers:
    """The multiplier of each output channel."""
    known = op.scaling(Arithmetic.CMSIS_NN)
    return known if len(known) == op.out_channels else known * op.out_channels


def _ends(distances: Iterable[int]) -> tuple[int, int]:
    """From the first to the last input that is seen, the output's own place among them."""
    seen = (0, *distances)
    return min(seen), max(seen)


def judge(op: TransposeConv2d) -> tuple[Verdict, ...]:
    """Judges whether a transposed convolution falls into phases: its result is a whole number of strides wide."""
    width, stride = op.y.shape[2], op.stride[1]
    known = (*int8(x=op.x, y=op.y, weights=op.weights), *constants(weights=op.weights, bias=op.bias))
    return (*known, Verdict("width", width % stride == 0, f"a multiple of stride {stride}", str(width)))


def places(op: TransposeConv2d, phase: Phase) -> Params:
    """Gives the places of a phase's rows in the result as parameters."""
    _, height, width, channels = op.y.shape
    return {
        "rows": phase.rows,
        "y_offset": phase.first * width * channels,
        "y_row_bytes": op.stride[0] * width * channels,
        "y_image_bytes": height * width * channels,
    }
