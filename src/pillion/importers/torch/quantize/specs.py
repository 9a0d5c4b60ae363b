# SPDX-License-Identifier: Apache-2.0
"""Number formats that the quantizer assigns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torchao.quantization.pt2e.quantizer import FixedQParamsQuantizationSpec, QuantizationSpec

from pillion.importers.torch.quantize.function_ranges import FunctionRange
from pillion.importers.torch.quantize.int16_sums import RowVarianceRange
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.importers.torch.quantize.sample_range import SampleRange
from pillion.importers.torch.quantize.shared_scales import NormParams
from pillion.importers.torch.quantize.softmax_inputs import RowMaximumRange
from pillion.importers.torch.train.trained_ranges import (
    SMALLEST_SCALE,
    BatchSoftmaxRangeObserver,
    ChannelRangeObserver,
    MinMaxRangeObserver,
    MovingAverageRangeObserver,
    MovingChannelRangeObserver,
    NanTolerantFakeQuantize,
    SharedBatchRangeObserver,
    SoftmaxRangeObserver,
)
from pillion.ir.types import DType

AT_ONCE = 1.0
"""Averaging constant of weights: the current range replaces the old one."""


@dataclass(frozen=True)
class Specs:
    """The int8 formats, with observers for calibration or fake quantization for training."""

    training: bool = False
    counted: bool = False
    """Whether observers count values, for ranges that clip some."""

    @cached_property
    def activation(self) -> QuantizationSpec:
        """Activations: per tensor, [-128, 127], any zero point."""
        return self._per_tensor(torch.per_tensor_affine, -128)

    @cached_property
    def symmetric(self) -> QuantizationSpec:
        """Symmetric activations: per tensor, [-127, 127], zero point 0."""
        return self._per_tensor(torch.per_tensor_symmetric, -127)

    @cached_property
    def shares(self) -> QuantizationSpec:
        """Softmax outputs: zero point -128, never clipped at the top."""
        observer = self._observer(SoftmaxRangeObserver, BatchSoftmaxRangeObserver)
        return _int8_spec(observer, torch.per_tensor_affine, -128)

    @cached_property
    def samples(self) -> QuantizationSpec:
        """Samples of sound: 16 bits, zero point 0."""
        low, high = DType.INT16.bounds
        return QuantizationSpec(
            dtype=torch.int16,
            observer_or_fake_quant_ctr=SampleRange.with_args(quant_min=low, quant_max=high),
            quant_min=low,
            quant_max=high,
            qscheme=torch.per_tensor_symmetric,
        )

    def norm_operand(self, norm: NormParams) -> QuantizationSpec:
        """Returns the format of a norm's operand: activations, with row variances observed."""
        observer = RowVarianceRange.with_args(eps=SMALLEST_SCALE, norm=norm)
        return _int8_spec(observer, torch.per_tensor_affine, -128)

    @cached_property
    def scores(self) -> QuantizationSpec:
        """Softmax operands: activations, with row maxima observed."""
        return _int8_spec(RowMaximumRange.with_args(eps=SMALLEST_SCALE), torch.per_tensor_affine, -128)

    def weights(self, axis: int | None) -> QuantizationSpec:
        """Returns the format of weights: [-127, 127], zero point 0, one scale per index of `axis`."""
        current = {"averaging_constant": AT_ONCE} if self.training else {}
        if axis is None:
            observer = self._observer(MinMaxRangeObserver, MovingAverageRangeObserver, **current)
            return _int8_spec(observer, torch.per_tensor_symmetric, -127)
        observer = self._observer(ChannelRangeObserver, MovingChannelRangeObserver, ch_axis=axis, **current)
        return _int8_spec(observer, torch.per_channel_symmetric, -127, axis)

    def fixed(self, scale: float, zero_point: int) -> FixedQParamsQuantizationSpec:
        """Returns the format of a result with fixed scale and zero point."""
        return FixedQParamsQuantizationSpec(
            dtype=torch.int8,
            scale=scale,
            zero_point=zero_point,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
        )

    def function(self, scale: float, zero_point: int) -> QuantizationSpec:
        """Returns the format of a function's result, with these parameters unless calibration gives finer ones."""
        observer = FunctionRange.with_args(eps=SMALLEST_SCALE, usual=(scale, zero_point))
        return _int8_spec(observer, torch.per_tensor_affine, -128)

    def _per_tensor(self, scheme: torch.qscheme, low: int) -> QuantizationSpec:
        return _int8_spec(self._tensor_observer, scheme, low)

    @cached_property
    def _tensor_observer(self) -> Any:
        return self._observer(
            HistogramRange if self.counted else MinMaxRangeObserver, SharedBatchRangeObserver
        )

    def _observer(self, calibrating: Any, training: Any, **arguments: Any) -> Any:
        """Returns the observer for calibration, or fake quantization for training. Torch's fused form of the latter
        rounds scales and zero points differently from conversion in one of five random tensors, so the compiled
        program would differ from the trained module."""
        if not self.training:
            return calibrating.with_args(eps=SMALLEST_SCALE, **arguments)
        rounding: Any = NanTolerantFakeQuantize
        return rounding.with_args(observer=training, eps=SMALLEST_SCALE, **arguments)


def _int8_spec(observer: Any, scheme: torch.qscheme, low: int, axis: int | None = None) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=observer,
        quant_min=low,
        quant_max=127,
        qscheme=scheme,
        ch_axis=axis,
    )
