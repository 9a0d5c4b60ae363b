# SPDX-License-Identifier: Apache-2.0
"""A network with all that reports show."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Two results, a shortcut, an op that no NPU has, odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x).relu()
        z = self.second(torch.flip(y, [2])) + y
        return self.last(z.mean((2, 3))).softmax(-1), z.amax((2, 3))


SHAPE = (1, 3, 17, 23)
