# SPDX-License-Identifier: Apache-2.0
"""Keyword spotting: posteriors averaged over time, and events with a refractory time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pillion.modules.arguments import require


class PosteriorSmoother(nn.Module):
    """Averages the posteriors [1, count] of the last `window` runs, this one included. Runs before a reset count
    as 0."""

    past: Tensor

    def __init__(self, count: int, window: int) -> None:
        super().__init__()
        require(count >= 1 and window >= 2, self, "count is 1 or more, window 2 or more", (count, window))
        self.register_buffer("past", torch.zeros(1, window - 1, count))

    def forward(self, posteriors: Tensor) -> Tensor:
        """Returns the averages [1, count]."""
        window = torch.cat([self.past, posteriors[:, None]], 1)
        self.past = window[:, 1:]
        return window.mean(1)


class KeywordDetector(nn.Module):
    """Answers an event if the highest posterior reaches a threshold, then none for `refractory` runs.

    Class 0 is the background. No event comes in the first `refractory` runs, in which a smoother fills its
    window."""

    resting: Tensor

    def __init__(self, threshold: float, refractory: int) -> None:
        super().__init__()
        require(
            0 < threshold <= 1 and refractory >= 1,
            self,
            "threshold is above 0 and at most 1, refractory 1 or more",
            (threshold, refractory),
        )
        self.threshold = threshold
        # One flag a run: a shifted flag stays exact, a counter of quantized steps does not.
        self.register_buffer("resting", torch.eye(1, refractory).flip(1))

    def forward(self, posteriors: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the class of the event [1, 1], 0 if nothing happened, and the highest posterior [1, 1]."""
        score, place = posteriors[:, 1:].max(1, keepdim=True)
        is_resting = self.resting.amax(1, keepdim=True) > 0.5
        fires = (score >= self.threshold) & ~is_resting
        flag = torch.where(fires, 1.0, 0.0)
        self.resting = torch.cat([self.resting[:, 1:], flag], 1)
        return torch.where(fires, place + 1, 0), score
