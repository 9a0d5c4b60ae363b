# SPDX-License-Identifier: Apache-2.0
"""Layers with 16-bit operands as the vector kernels see them: sums of 32 bits, each rounded by one multiplication."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, OutputChannels
from pillion.emitters.c.kernel_conditions import Check, is_within, short_circuit
from pillion.emitters.c.portable.layers16 import LAYER_16
from pillion.ir import numerics
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Convolution, DepthwiseConv2d, largest_16_bit_sum
from pillion.ops.linear import Linear

Layer = Convolution | Linear
MOST_RIGHT = 31
"""The largest right shift of a multiplier of 15 bits that one rounding multiplication makes."""


def weight_rows(op: Layer) -> Int8Array:
    """Returns the weights of each output channel."""
    rows = op.weights.constant if isinstance(op, Linear) else op.weights_per_output
    return np.asarray(rows, np.int8)


def sums_have_32_bits(op: Layer) -> Verdict:
    """Checks whether sums and partial sums fit 32 bits for all operands."""
    largest = largest_16_bit_sum(op, weight_rows(op))
    return Verdict("sums", largest <= numerics.INT32_MAX, "below 2^31", f"up to {largest}")


def rounds_in_one_step(op: Layer) -> Verdict:
    """Checks whether all ratios of scales lie between 2^-17 and 1/2."""
    multipliers, rights = numerics.to_15_bits(*op.multipliers)
    live = rights[multipliers > 0]
    least, most = (int(live.min()), int(live.max())) if live.size else (MOST_RIGHT, MOST_RIGHT)
    fits = is_within("right_shift", least, 16).ok and most <= MOST_RIGHT
    return Verdict("right_shift", fits, f"16 to {MOST_RIGHT}", f"{least} to {most}")


IN_32_BITS: Check[Layer] = short_circuit(*LAYER_16, sums_have_32_bits, rounds_in_one_step)
"""A layer has constant weights, sums of 32 bits, and ratios that a rounding multiplication of 32 bits takes exactly."""


def channels_16(op: Layer) -> OutputChannels:
    """Returns the channels of a layer; a sum times its multiplier over 2^31, rounded half up, is the result."""
    multipliers, rights = numerics.to_15_bits(*op.multipliers)
    factors = np.where(multipliers > 0, multipliers << np.clip(MOST_RIGHT - rights, 0, 15), 0)
    bias = np.asarray(op.bias.constant, np.int32)
    no_shifts = np.zeros_like(bias)
    return OutputChannels(weight_rows(op), bias, factors.astype(np.int32), no_shifts, 0, 0, op.low, op.high)


PLANE_BYTES = 8192
"""The target size of the plane of a channel."""


def is_3x3(op: DepthwiseConv2d) -> Iterator[Verdict]:
    """Checks whether a window is 3x3, at stride 1 or 2 both ways, and a row has the four outputs that are made together."""
    yield is_within("out_w", op.y.shape[2], least=4)
    for field, wanted, allowed in (
        ("kernel", "3x3", ((3, 3),)),
        ("dilation", "1x1", ((1, 1),)),
        ("stride", "1x1 or 2x2", ((1, 1), (2, 2))),
    ):
        sizes = getattr(op, field)
        yield Verdict(field, sizes in allowed, wanted, "x".join(map(str, sizes)))


def has_one_filter(op: DepthwiseConv2d) -> Verdict:
    """Checks whether each channel has one filter."""
    return Verdict("filters", op.depth_multiplier == 1, "1", str(op.depth_multiplier))


def rows_of_plane(op: DepthwiseConv2d, row_bytes: int) -> int:
    """Returns the rows of outputs that are made from a plane with such rows."""
    return min(op.y.shape[1], max(PLANE_BYTES // (op.stride[0] * row_bytes) - 2, 3))


def plane_bytes(op: DepthwiseConv2d, rows: int, row_bytes: int) -> int:
    """Returns the bytes of the rows under some rows of outputs."""
    return ((rows - 1) * op.stride[0] + 3) * row_bytes
