# SPDX-License-Identifier: Apache-2.0
"""DS-CNN, the keyword spotter of MLPerf Tiny."""

from __future__ import annotations

from torch import Tensor, nn

from pillion.zoo.conv_block import ConvBN

CHANNELS = 64
BLOCKS = 4
EPS = 1e-3  # Keras' default, with which the reference model was trained


class DsCnn(nn.Module):
    """A 10x4 convolution over 49 frames of 10 cepstral coefficients, then four depthwise-separable blocks."""

    def __init__(self, classes: int = 12) -> None:
        super().__init__()
        self.stem = ConvBN(1, CHANNELS, (10, 4), 2, pad=(1, 1, 4, 5), eps=EPS)
        self.blocks = nn.Sequential(*(_separable_block(CHANNELS) for _ in range(BLOCKS)))
        self.pool = nn.AvgPool2d((25, 5))
        self.head = nn.Linear(CHANNELS, classes)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.blocks(self.stem(x)))
        out: Tensor = self.softmax(self.head(y.flatten(1)))
        return out


def _separable_block(channels: int) -> nn.Sequential:
    return nn.Sequential(
        ConvBN(channels, channels, 3, depthwise=True, eps=EPS), ConvBN(channels, channels, eps=EPS)
    )
