# SPDX-License-Identifier: Apache-2.0
"""The range of a tensor over many batches of training, and rounding with it."""

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

SCALE_OF_ZEROS = 2.0**-24
"""The scale of tensors and channels that are always zero: far below what models use, and yet a multiplier can reach it."""
SMALLEST_SCALE = 2.0**-48
"""The smallest scale of all other tensors."""
HEADROOM = 1.125
"""How much larger than those that were seen shares may be. The largest decide: over few keys 1 costs 2 dB, and over many 1.25 gives away 0.3."""
MUCH_FINER = 0.9
"""The part of the usual steps of a softmax below which steps of its own are worth it: 0.9 dB. They are none of 1/256 that other runtimes have."""
SYMMETRIC = (torch.per_tensor_symmetric, torch.per_channel_symmetric)


class ScaleOfZeros:
    """Gives tensors that were always zero a small scale of their own, so that the smallest weights are not taken for zeros."""

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> Any:
        observer: Any = self
        steps = (
            observer.quant_max if observer.qscheme in SYMMETRIC else observer.quant_max - observer.quant_min
        )
        is_zero = (low == 0) & (high == 0)
        known = torch.where(is_zero, steps * SCALE_OF_ZEROS, high)
        return super()._calculate_qparams(low, known)  # type: ignore[misc]  # of the observer


class Range(ScaleOfZeros, MinMaxObserver):
    """An observer of the range from the least to the largest value."""


class SharesOfOne:
    """Gives shares of one, which a softmax makes, the finest steps in which the largest is held, and a little larger ones."""

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> Any:
        scale = max(HEADROOM * float(high) / INT8_STEPS, FINEST_SCALE)
        scale = scale if scale < MUCH_FINER * OUTPUT.scale else OUTPUT.scale
        return torch.full((1,), scale), torch.full((1,), OUTPUT.zero_point, dtype=torch.int64)


class RangeOfShares(SharesOfOne, Range):
    """An observer of how large shares of one become."""


class RangeOfChannels(ScaleOfZeros, PerChannelMinMaxObserver):
    """An observer of the range of each channel from its least to its largest value."""


class RangeNow(ScaleOfZeros, MovingAverageMinMaxObserver):
    """An observer of a range that follows the tensors of late."""


class RangeOfChannelsNow(ScaleOfZeros, MovingAveragePerChannelMinMaxObserver):
    """An observer of the range of each channel that follows the tensors of late."""


class RangeOverBatches(RangeNow):
    """A moving average over batches, in which a batch counts with all tensors that share the range.

    torch's own average moves with every tensor. The inputs of a concatenation share their range, so that it would settle
    between that of the widest and that of the narrowest, and cut off the widest."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.begin_batch()

    def begin_batch(self) -> None:
        """Begins another batch, to which tensors belong from here on."""
        self.before: tuple[Tensor, Tensor] | None = None
        self.seen: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Moves the range towards that of the batch, and gives the tensor back as it is."""
        if x.numel() == 0:
            return x
        low, high = x.detach().to(self.min_val.dtype).aminmax()
        if self.seen is None:
            self.before = (self.min_val.clone(), self.max_val.clone())
            self.seen = (low, high)
        else:
            self.seen = (torch.minimum(low, self.seen[0]), torch.maximum(high, self.seen[1]))
        for kept, old, new in zip((self.min_val, self.max_val), self.before or (), self.seen, strict=True):
            moved = old + self.averaging_constant * (new - old)
            kept.copy_(torch.where(torch.isinf(old), new, moved))
        return x


class SharesOverBatches(SharesOfOne, RangeOverBatches):
    """The range of shares of one, as `RangeOverBatches` finds it."""


class Rounding(FakeQuantize):
    """Fake quantization that lets a training loop go on after it has diverged, as without quantization: losses are NaN."""

    def calculate_qparams(self, **options: Any) -> Any:
        """Gives scales and zero points; a range that holds a NaN has the scale NaN, where torchao ends the loop with an assertion."""
        observer = self.activation_post_process
        broken = torch.isnan(observer.min_val) | torch.isnan(observer.max_val)
        if not bool(broken.any()):
            return super().calculate_qparams(**options)
        return torch.where(broken, torch.nan, self.scale), torch.where(broken, 0, self.zero_point)
