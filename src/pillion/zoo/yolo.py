# SPDX-License-Identifier: Apache-2.0
"""A detector in the manner of small YOLOs: two heads, at a sixteenth and at an eighth of the picture's side."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pillion.zoo.layers import ConvBN

ANCHORS = 3
BOX = 5
"""Of a box: place, size, and whether there is one."""


class TwoHeads(nn.Module):
    """A backbone of strided convolutions and blocks that gather what each of their layers makes; the deeper features also go up."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        values = ANCHORS * (BOX + classes)
        self.stem = nn.Sequential(ConvBN(3, 16, 3, 2), ConvBN(16, 32, 3, 2), Gather(32))
        self.middle = nn.Sequential(ConvBN(32, 64, 3, 2), Gather(64))
        self.deep = nn.Sequential(ConvBN(64, 96, 3, 2), Gather(96))
        self.narrow = ConvBN(96, 32)
        self.together = ConvBN(96, 64)
        self.coarse, self.fine = nn.Conv2d(96, values, 1), nn.Conv2d(64, values, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        middle = self.middle(self.stem(x))
        deep = self.deep(middle)
        above = F.interpolate(self.narrow(deep), size=middle.shape[-2:])
        fine = self.together(torch.cat([above, middle], 1))
        return self.coarse(deep), self.fine(fine)


class Gather(nn.Module):
    """A narrow layer and two 3x3 convolutions in a row; the results of all three side by side are mixed."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.first, self.second, self.third = (
            ConvBN(channels, half),
            ConvBN(half, half, 3),
            ConvBN(half, half, 3),
        )
        self.mix = ConvBN(3 * half, channels)

    def forward(self, x: Tensor) -> Tensor:
        one = self.first(x)
        two = self.second(one)
        out: Tensor = self.mix(torch.cat([one, two, self.third(two)], 1))
        return out
