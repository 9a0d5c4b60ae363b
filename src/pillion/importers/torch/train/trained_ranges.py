# SPDX-License-Identifier: Apache-2.0
"""Observers of ranges in calibration and training, and fake quantization."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchao.quantization.pt2e import (
    FakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)

from pillion.ir.numerics import INT8_STEPS
from pillion.ops.softmax import FINEST_SCALE, OUTPUT

ZERO_SCALE = 2.0**-24
"""Scale of all-zero tensors and channels: below any real one, but reachable by a multiplier."""
SMALLEST_SCALE = 2.0**-48
"""Smallest scale of all other tensors."""
HEADROOM = 1.125
"""Factor by which softmax outputs may exceed the observed maximum. Measured: 1 costs 2 dB over few keys, 1.25
costs 0.3 dB over many."""
FINER_THAN_DEFAULT = 0.9
"""A softmax deviates from the standard scale of 1/256 only below this fraction of it (a gain of 0.9 dB), because
other runtimes require that scale."""
SYMMETRIC = (torch.per_tensor_symmetric, torch.per_channel_symmetric)


class ZeroTensorScale:
    """Gives all-zero tensors a small scale of their own: tiny weights do not become zeros."""

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> Any:
        observer: Any = self
        steps = (
            observer.quant_max if observer.qscheme in SYMMETRIC else observer.quant_max - observer.quant_min
        )
        is_zero = (low == 0) & (high == 0)
        known = torch.where(is_zero, steps * ZERO_SCALE, high)
        return super()._calculate_qparams(low, known)  # type: ignore[misc]  # of the observer


class MinMaxRangeObserver(ZeroTensorScale, MinMaxObserver):
    """Observes minimum and maximum."""


class SoftmaxScale:
    """Chooses the finest scale that holds a softmax's largest output, with headroom."""

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> Any:
        scale = max(HEADROOM * float(high) / INT8_STEPS, FINEST_SCALE)
        scale = scale if scale < FINER_THAN_DEFAULT * OUTPUT.scale else OUTPUT.scale
        return torch.full((1,), scale), torch.full((1,), OUTPUT.zero_point, dtype=torch.int64)


class SoftmaxRangeObserver(SoftmaxScale, MinMaxRangeObserver):
    """Observes the range of softmax outputs."""


class ChannelRangeObserver(ZeroTensorScale, PerChannelMinMaxObserver):
    """Observes minimum and maximum of each channel."""


class MovingAverageRangeObserver(ZeroTensorScale, MovingAverageMinMaxObserver):
    """Observes a moving average of the range."""


class MovingChannelRangeObserver(ZeroTensorScale, MovingAveragePerChannelMinMaxObserver):
    """Observes a moving average of each channel's range."""


class SharedBatchRangeObserver(MovingAverageRangeObserver):
    """Observes a moving average per batch over all tensors that share the range.

    torch's average moves with every tensor: inputs of a concatenation, which share their range, would settle
    between the widest and the narrowest and clip the widest."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.begin_batch()

    def begin_batch(self) -> None:
        """Starts the next batch."""
        self.before: tuple[Tensor, Tensor] | None = None
        self.seen: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Moves the range towards the batch's and returns the tensor unchanged."""
        if x.numel() == 0:
            return x
        low, high = x.detach().to(self.min_val.dtype).aminmax()
        if self.seen is None:
            self.before = (self.min_val.clone(), self.max_val.clone())
            self.seen = (low, high)
        else:
            self.seen = (torch.minimum(low, self.seen[0]), torch.maximum(high, self.seen[1]))
        for bound, old, new in zip((self.min_val, self.max_val), self.before or (), self.seen, strict=True):
            moved = old + self.averaging_constant * (new - old)
            bound.copy_(torch.where(torch.isinf(old), new, moved))
        return x


class BatchSoftmaxRangeObserver(SoftmaxScale, SharedBatchRangeObserver):
    """Observes softmax outputs with a moving average per batch."""


class NanTolerantFakeQuantize(FakeQuantize):
    """Fake quantization that tolerates NaN ranges, so that a diverged training loop can go on."""

    def calculate_qparams(self, **options: Any) -> Any:
        """Returns scales and zero points; a NaN range has scale NaN, where torchao raises."""
        observer = self.activation_post_process
        broken = torch.isnan(observer.min_val) | torch.isnan(observer.max_val)
        if not bool(broken.any()):
            return super().calculate_qparams(**options)
        return torch.where(broken, torch.nan, self.scale), torch.where(broken, 0, self.zero_point)
