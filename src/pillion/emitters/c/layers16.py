# SPDX-License-Identifier: Apache-2.0
"""Layers with 16-bit results as the vector kernels see them: sums of 32 bits, each rounded by one multiplication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int64Array, OutputChannels
from pillion.emitters.c.kernel_conditions import Check, short_circuit
from pillion.emitters.c.portable.layers16 import LAYER_8_16, LAYER_16
from pillion.ir import numerics
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.layer import Layer

LEAST_RIGHT, MOST_RIGHT = 16, 31
"""The right shifts that one rounding multiplication by a 15-bit multiplier covers."""


def weight_rows(op: Layer) -> Int8Array:
    """Returns the weights of each output channel."""
    return np.asarray(op.weights_per_output, np.int8)


def sums_have_32_bits(op: Layer) -> Verdict:
    """Checks whether sums and partial sums fit 32 bits for all operands."""
    largest = int(op.largest_16_bit_sums.max(initial=0))
    return Verdict("sums", largest <= numerics.INT32_MAX, "below 2^31", f"up to {largest}")


def bounds_with_padding(op: Conv2d) -> tuple[int, int]:
    """Returns the least and the largest number of an image and its padding."""
    low, high = op.x_bounds or op.x.dtype.bounds
    return min(low, 0), max(high, 0)


def operand_within(width: int) -> Callable[[Conv2d], Verdict]:
    """Returns the condition that the numbers of an image lie within so many, so that their differences fit 16 bits."""

    def has_width(op: Conv2d) -> Verdict:
        low, high = bounds_with_padding(op)
        return Verdict("operand", high - low < width, f"within {width} numbers", f"{low} to {high}")

    return has_width


def right_shifts(op: Layer) -> Int64Array:
    """Returns the right shifts of the multipliers of 15 bits that are not 0."""
    multipliers, rights = numerics.to_15_bits(*op.multipliers)
    return rights[multipliers > 0]


def rounds_by(least: int, most: int) -> Callable[[Layer], Verdict]:
    """Returns the condition that all ratios of scales are multipliers of 15 bits with a right shift in a range."""

    def rounds_in_one_step(op: Layer) -> Verdict:
        live = right_shifts(op)
        found = (int(live.min()), int(live.max())) if live.size else (least, least)
        fits = least <= found[0] and found[1] <= most
        return Verdict("right_shift", fits, f"{least} to {most}", f"{found[0]} to {found[1]}")

    return rounds_in_one_step


IN_32_BITS: Check[Layer] = short_circuit(*LAYER_16, sums_have_32_bits, rounds_by(LEAST_RIGHT, MOST_RIGHT))
"""A layer has constant weights, sums of 32 bits, and ratios that a rounding multiplication of 32 bits takes exactly."""


WIDENS: Check[Layer] = short_circuit(LAYER_8_16, rounds_by(LEAST_RIGHT, MOST_RIGHT))
"""A layer has 8-bit operands, 16-bit results, and ratios that a rounding multiplication of 32 bits takes exactly."""


def channels_16(op: Layer) -> OutputChannels:
    """Returns the channels of a layer; a sum times its multiplier over 2^31, rounded half up, is the result. The zero point
    of 8-bit operands is folded into the bias."""
    multipliers, rights = numerics.to_15_bits(*op.multipliers)
    factors = np.where(multipliers > 0, multipliers << np.clip(MOST_RIGHT - rights, 0, 15), 0)
    bias = np.asarray(op.bias.constant, np.int32)
    numbers = factors.astype(np.int32), np.zeros_like(bias), op.x.zero_point, 0, op.low, op.high
    channels = OutputChannels(weight_rows(op), bias, *numbers)
    return replace(channels, bias=channels.folded_bias, in_zp=0) if op.widens else channels


def has_one_filter(op: DepthwiseConv2d) -> Verdict:
    """Checks whether each channel has one filter."""
    return Verdict("filters", op.depth_multiplier == 1, "1", str(op.depth_multiplier))
