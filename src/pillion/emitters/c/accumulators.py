# SPDX-License-Identifier: Apache-2.0
"""Layers as the vector kernels see them: output channels, each of which is a sum of products that is scaled to int8."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ops.conv import Convolution
from pillion.ops.linear import Linear

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class Channels:
    """The output channels of a layer: y = clamp(requantize(bias + sum((x - in_zp) w)) + out_zp, low, high)."""

    weights: Int8Array
    """[channels, inputs of a sum]"""
    bias: Int32Array | Int64Array
    multipliers: Int32Array
    shifts: Int32Array
    in_zp: int
    out_zp: int
    low: int = -128
    high: int = 127

    @property
    def is_rectified(self) -> bool:
        """Whether all results below the zero point become the zero point: negative sums need no rounding of their own."""
        return self.low >= self.out_zp

    @property
    def folded_bias(self) -> Int64Array:
        """The bias that goes with sums of x times w, x being the input as it lies in memory."""
        return self.bias.astype(np.int64) - self.in_zp * numerics.row_sums(self.weights)

    @property
    def wrapped_bias(self) -> Int32Array:
        """The bias in 32 bits. Sums wrap in them, so may it: the last sum fits."""
        return numerics.wrap32(self.bias.astype(np.int64)).astype(np.int32)

    def bounds(self) -> tuple[Int64Array, Int64Array]:
        """Gives the least and the largest sum of each channel, whatever the input."""
        least, largest = numerics.row_bounds(self.weights)
        return self.folded_bias + least, self.folded_bias + largest


def channels_of(op: Convolution | Linear) -> Channels:
    """Gives the output channels of a layer with constant weights."""
    weights = op.weights_per_output if isinstance(op, Convolution) else op.weights.constant
    bias, levels = np.asarray(op.bias.constant, np.int32), (op.x.zero_point, op.y.zero_point, op.low, op.high)
    return Channels(np.asarray(weights, np.int8), bias, *op.multipliers, *levels)


def fold_input_offset(channels: Channels) -> Channels:
    """Gives the same sums of the input as it lies in memory: sum((x - zp) w) = sum(x w) - zp sum(w).

    A channel whose result is the same for every input becomes a bias alone, four times the result, with a shift that the fast
    rounding holds for: pruned channels have scales next to nothing, for which no fast formula is right. (Where a left shift
    wraps, equal results at both ends say nothing of what lies between.)"""
    least, largest = channels.bounds()
    reach = np.maximum(np.abs(least), np.abs(largest))
    wraps = reach << np.maximum(channels.shifts, 0).astype(np.int64) > numerics.INT32_MAX
    ends = [numerics.requantize(end, channels.multipliers, channels.shifts) for end in (least, largest)]
    ends = [np.clip(end + channels.out_zp, -128, 127) - channels.out_zp for end in ends]
    same = (ends[0] == ends[1]) & ~wraps
    return replace(
        channels,
        weights=np.where(same[:, None], np.int8(0), channels.weights),
        bias=np.where(same, 4 * ends[0], channels.folded_bias),
        multipliers=np.where(same, np.int32(2**30), channels.multipliers),
        shifts=np.where(same, np.int32(-1), channels.shifts),
        in_zp=0,
    )
