# SPDX-License-Identifier: Apache-2.0
"""Models that answer events."""

import torch
from torch import Tensor, nn

from pillion.modules import KeywordDetector


class Bells(nn.Module):
    """Answers 1 or 2 if that signal is loud in a step, then rests for two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = KeywordDetector(0.5, refractory=2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.detector(torch.cat([0 * x[:, :1, 0], x.mean(2)], 1))


def bells() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Bells().eval(), (torch.rand(1, 2, 4),)


class Knock(nn.Module):
    """Answers 1 if the mean of a window is large, not in the first three runs."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = KeywordDetector(0.5, refractory=3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.detector(x.reshape(1, 4, 8).mean(2).amax(1, keepdim=True).expand(1, 2))


def knock() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Knock().eval(), (torch.rand(1, 32),)
