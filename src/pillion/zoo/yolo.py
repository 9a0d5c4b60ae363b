# SPDX-License-Identifier: Apache-2.0
"""A detector like small YOLOs: two heads, at a sixteenth and an eighth of the image's side."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pillion.zoo.conv_block import ConvBN

ANCHORS = 3
BOX = 5
"""The numbers of a box: place, size and confidence."""


class TwoHeads(nn.Module):
    """A backbone of strided convolutions and feature-gathering blocks; the deeper features are also
    upsampled."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        values = ANCHORS * (BOX + classes)
        self.stem = nn.Sequential(ConvBN(3, 16, 3, 2), ConvBN(16, 32, 3, 2), GatherFeatures(32))
        self.middle = nn.Sequential(ConvBN(32, 64, 3, 2), GatherFeatures(64))
        self.deep = nn.Sequential(ConvBN(64, 96, 3, 2), GatherFeatures(96))
        self.narrow = ConvBN(96, 32)
        self.together = ConvBN(96, 64)
        self.coarse, self.fine = nn.Conv2d(96, values, 1), nn.Conv2d(64, values, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        middle = self.middle(self.stem(x))
        deep = self.deep(middle)
        above = F.interpolate(self.narrow(deep), size=middle.shape[-2:])
        fine = self.together(torch.cat([above, middle], 1))
        return self.coarse(deep), self.fine(fine)


class GatherFeatures(nn.Module):
    """A pointwise layer and two 3x3 convolutions in sequence; all three results are concatenated and
    mixed."""

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
