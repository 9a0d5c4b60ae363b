# SPDX-License-Identifier: Apache-2.0
"""The number formats of torch's quantization flow that the quantizer hands out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torchao.quantization.pt2e.quantizer import FixedQParamsQuantizationSpec, QuantizationSpec

from pillion.importers.torch.quantize.histogram import CountedRange
from pillion.importers.torch.quantize.scores import RangeOfScores
from pillion.importers.torch.quantize.sharing import Norm
from pillion.importers.torch.quantize.widen import RangeOfRows
from pillion.importers.torch.train.ranges import (
    SMALLEST_SCALE,
    Range,
    RangeNow,
    RangeOfChannels,
    RangeOfChannelsNow,
    RangeOfShares,
    RangeOverBatches,
    Rounding,
    SharesOverBatches,
)

AT_ONCE = 1.0
"""How much of a weight's present range goes into its moving average: all of it, nothing is cut off."""


@dataclass(frozen=True)
class Specs:
    """The int8 formats, with observers for calibration or fake quantization for training."""

    training: bool = False
    counted: bool = False
    """Whether observers count how often values occur, for ranges that leave out some."""

    @cached_property
    def activation(self) -> QuantizationSpec:
        """The format of activations: one scale for the tensor, [-128, 127], any zero point."""
        return self._per_tensor(torch.per_tensor_affine, -128)

    @cached_property
    def symmetric(self) -> QuantizationSpec:
        """The format of activations whose zero point is 0: one scale for the tensor, [-127, 127]."""
        return self._per_tensor(torch.per_tensor_symmetric, -127)

    @cached_property
    def shares(self) -> QuantizationSpec:
        """The format of shares of one: zero point -128. The largest is never cut off: it decides."""
        observer = _fake(SharesOverBatches) if self.training else RangeOfShares.with_args(eps=SMALLEST_SCALE)
        return _spec(observer, torch.per_tensor_affine, -128)

    def before(self, norm: Norm) -> QuantizationSpec:
        """The format of what a norm reads: as that of activations, and how small its rows become is observed, too."""
        observer = RangeOfRows.with_args(eps=SMALLEST_SCALE, norm=norm)
        return _spec(observer, torch.per_tensor_affine, -128)

    @cached_property
    def scores(self) -> QuantizationSpec:
        """The format of what a softmax reads: as that of activations, and how large the largest of each row are is observed, too."""
        return _spec(RangeOfScores.with_args(eps=SMALLEST_SCALE), torch.per_tensor_affine, -128)

    def weights(self, axis: int | None) -> QuantizationSpec:
        """The format of weights: [-127, 127] with zero point 0, a scale for each index of an axis."""
        if axis is None:
            return _spec(self._weight_observer, torch.per_tensor_symmetric, -127)
        return _spec(self._channel_observer(axis), torch.per_channel_symmetric, -127, axis)

    def fixed(self, scale: float, zero_point: int) -> FixedQParamsQuantizationSpec:
        """The format of a result whose scale and zero point the function fixes."""
        return FixedQParamsQuantizationSpec(
            dtype=torch.int8,
            scale=scale,
            zero_point=zero_point,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
        )

    def _per_tensor(self, scheme: torch.qscheme, low: int) -> QuantizationSpec:
        return _spec(self._tensor_observer, scheme, low)

    @cached_property
    def _tensor_observer(self) -> Any:
        if not self.training:
            return (CountedRange if self.counted else Range).with_args(eps=SMALLEST_SCALE)
        return _fake(RangeOverBatches)

    @cached_property
    def _weight_observer(self) -> Any:
        if not self.training:
            return Range.with_args(eps=SMALLEST_SCALE)
        return _fake(RangeNow, averaging_constant=AT_ONCE)

    def _channel_observer(self, axis: int) -> Any:
        if not self.training:
            return RangeOfChannels.with_args(eps=SMALLEST_SCALE, ch_axis=axis)
        return _fake(RangeOfChannelsNow, averaging_constant=AT_ONCE, ch_axis=axis)


def _fake(observer: Any, **arguments: Any) -> Any:
    """Not torch's fused form of it: that rounds scales and zero points in another way than the conversion does (in one of
    five random tensors), and the trained module would not be the program that is compiled from it."""
    rounding: Any = Rounding
    return rounding.with_args(observer=observer, eps=SMALLEST_SCALE, **arguments)


def _spec(observer: Any, scheme: torch.qscheme, low: int, axis: int | None = None) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=observer,
        quant_min=low,
        quant_max=127,
        qscheme=scheme,
        ch_axis=axis,
    )
