# SPDX-License-Identifier: Apache-2.0
"""Observers of 16-bit tensors; their ranges follow from the int8 ranges."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor
from torchao.quantization.pt2e import FixedQParamsFakeQuantize, FixedQParamsObserver, ObserverBase

from pillion.importers.torch.quantize.int16_tensors import ROOM
from pillion.importers.torch.train.trained_ranges import (
    SMALLEST_SCALE,
    NanTolerantFakeQuantize,
    SharedBatchRangeObserver,
)
from pillion.ir.types import DType, PerTensor

LEAST_ROOM = ROOM / sqrt(2)
"""Ranges have the room between this and twice as much that makes steps a power of two."""
_follow_range: Any = NanTolerantFakeQuantize
_keep_range: Any = FixedQParamsFakeQuantize


class Int16Observer(ObserverBase):
    """The base class of symmetric int16 ranges that follow from another observer's."""

    def __init__(self, coarse: Any) -> None:
        super().__init__(torch.int16)
        self.coarse = coarse
        self.qscheme = torch.per_tensor_symmetric
        self.quant_min, self.quant_max = DType.INT16.bounds

    def forward(self, x: Tensor) -> Tensor:
        """Returns the tensor unchanged; the other observer has seen it."""
        return x


def limit_levels(observer: Any, low: int, high: int) -> None:
    """Limits the levels of a tensor, in training also those to which it is rounded."""
    for part in (observer, getattr(observer, "activation_post_process", observer)):
        part.quant_min, part.quant_max = low, high


def narrow_levels(observer: Any) -> tuple[int, int] | None:
    """Returns the levels of a 16-bit tensor if they are fewer than those of the type: the op that makes it clamps it."""
    levels = observer.quant_min, observer.quant_max
    return levels if observer.dtype is torch.int16 and levels != DType.INT16.bounds else None


class SymmetricObserver(Int16Observer):
    """The range that contains the other observer's, with room for other samples. The other's steps are a power of two
    of its own, so that a shift converts between them, unless it ends where a clamp ends, so that saturation clamps."""

    def __init__(self, coarse: Any, fixed: PerTensor | None = None, most: float = inf) -> None:
        super().__init__(coarse)
        self.fixed = fixed
        self.most = most
        """The largest magnitude that the tensor can have, whatever the samples are."""
        self.least_step = 0.0
        """The finest steps that it may have."""
        self.shared_step = 0.0
        """The steps of tensors that are added to this one, if they are coarser."""

    def calculate_qparams(self, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point."""
        scale, zero_point = self.coarse.calculate_qparams()
        if self.fixed is not None:
            return torch.full_like(scale, self.fixed.scale), torch.zeros_like(zero_point)
        least, most = DType.INT8.bounds
        is_fixed = not hasattr(
            self.coarse, "min_val"
        )  # it ends one step behind the last level, as [0, 1) does
        low, high = ((bound - zero_point.double()) * scale.double() for bound in (least, most + is_fixed))
        step = torch.maximum(low / self.quant_min, high / (self.quant_max + is_fixed)).to(scale.dtype)
        if not is_fixed:
            step = _fraction(scale, LEAST_ROOM * step).clamp(max=self.most / self.quant_max)
        step = step.maximum(_fraction(scale, torch.full_like(step, self.least_step)))
        return step.clamp(min=self.shared_step), torch.zeros_like(zero_point)

    def trained(self) -> Any:
        """Returns fake quantization for training: its range follows the tensor, unless the scale is fixed."""
        levels: dict[str, Any] = {
            "dtype": self.dtype,
            "qscheme": self.qscheme,
            "quant_min": self.quant_min,
            "quant_max": self.quant_max,
        }
        if self.fixed is None and hasattr(self.coarse, "min_val"):
            return _follow_range(SharedBatchRangeObserver, eps=SMALLEST_SCALE, **levels)
        scale = self.calculate_qparams()[0] if self.fixed is None else self.fixed.scale
        return _keep_range(FixedQParamsObserver.with_args(scale=float(scale), zero_point=0, **levels))


def _fraction(whole: Tensor, least: Tensor) -> Tensor:
    """Returns the smallest number that is not less than `least` and `whole` times a power of two."""
    return whole * torch.exp2(-torch.floor(torch.log2(whole / least)))


class WidenedObserver(Int16Observer):
    """The range that holds the integers of an int8 tensor unchanged, without its zero point."""

    def calculate_qparams(self, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point."""
        scale, zero_point = self.coarse.calculate_qparams()
        return scale, torch.zeros_like(zero_point)
