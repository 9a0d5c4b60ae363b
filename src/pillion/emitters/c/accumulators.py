# SPDX-License-Identifier: Apache-2.0
"""Layers as the vector kernels see them: each output channel is a sum of products, rescaled to int8."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel_conditions import LAYER, Check, short_circuit
from pillion.ir import numerics
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.layer import Layer

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class OutputChannels:
    """The output channels of a layer: y = clamp(requantize(bias + sum((x - in_zp) w)) + out_zp, low, high)."""

    weights: Int8Array
    """Weights as [channels, inputs of a sum]."""
    bias: Int32Array | Int64Array
    multipliers: Int32Array
    shifts: Int32Array
    in_zp: int
    out_zp: int
    low: int = -128
    high: int = 127

    @property
    def is_rectified(self) -> bool:
        """Whether every result below the zero point is clamped to it: negative sums need no exact rounding."""
        return self.low >= self.out_zp

    @property
    def folded_bias(self) -> Int64Array:
        """The bias for sums of w * x without the input's zero point: bias - in_zp * sum(w)."""
        return self.bias.astype(np.int64) - self.in_zp * numerics.row_sums(self.weights)

    @property
    def wrapped_bias(self) -> Int32Array:
        """The bias modulo 2^32. Partial sums wrap, too; the complete sum fits 32 bits."""
        return numerics.wrap_to_32_bits(self.bias.astype(np.int64)).astype(np.int32)

    def bounds(self) -> tuple[Int64Array, Int64Array]:
        """Returns the smallest and the largest possible sum of each channel."""
        least, largest = numerics.row_bounds(self.weights)
        return self.folded_bias + least, self.folded_bias + largest

    @cached_property
    def with_folded_zero_point(self) -> OutputChannels:
        """The channels with the zero point folded into the bias: sum((x - zp) w) = sum(x w) - zp sum(w).

        A channel with the same result for every input becomes a bias of four times that result, with a shift of
        -1. Pruned channels have such tiny scales that no fast rounding is exact for them. A channel whose left
        shift wraps is not replaced, because equal results at both bounds say nothing about the sums in between."""
        least, largest = self.bounds()
        reach = np.maximum(np.abs(least), np.abs(largest))
        wraps = reach << np.maximum(self.shifts, 0).astype(np.int64) > numerics.INT32_MAX
        extremes = [numerics.requantize(end, self.multipliers, self.shifts) for end in (least, largest)]
        extremes = [np.clip(end + self.out_zp, -128, 127) - self.out_zp for end in extremes]
        same = (extremes[0] == extremes[1]) & ~wraps
        return replace(
            self,
            weights=np.where(same[:, None], np.int8(0), self.weights),
            bias=np.where(same, 4 * extremes[0], self.folded_bias),
            multipliers=np.where(same, np.int32(2**30), self.multipliers),
            shifts=np.where(same, np.int32(-1), self.shifts),
            in_zp=0,
        )


_CHANNELS: WeakKeyDictionary[Value, dict[object, OutputChannels]] = WeakKeyDictionary()
"""The channels of each layer, by its weights: several kernels, and all variants of a layer, ask for them."""


def channels_of(op: Layer) -> OutputChannels:
    """Returns the output channels of a layer with constant weights. The variants of a layer share them."""
    known = _CHANNELS.setdefault(op.weights, {})
    key = (type(op), op.bias, op.x.type.quant, op.y.type.quant, op.low, op.high, op.explicit)
    if key not in known:
        known[key] = _output_channels(op)
    return known[key]


def _output_channels(op: Layer) -> OutputChannels:
    weights = op.weights_per_output
    bias, levels = np.asarray(op.bias.constant, np.int32), (op.x.zero_point, op.y.zero_point, op.low, op.high)
    return OutputChannels(np.ascontiguousarray(weights, np.int8), bias, *op.multipliers, *levels)


def channels_meet(verdicts: Callable[[OutputChannels], Iterable[Verdict]]) -> Check[Any]:
    """Returns the condition that a layer of int8 has constant weights, and that its channels meet conditions."""
    return short_circuit(LAYER, lambda op: verdicts(channels_of(op)))
