# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al., 2018, table 2)."""

from __future__ import annotations

from torch import Tensor, nn

from pillion.zoo.conv_block import ConvBN

STEM = 32
FEATURES = 1280
STAGES = (  # expansion, output channels, blocks, stride of the first block
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class MobileNetV2(nn.Module):
    """Width 1.0, for images of any size, with logits as output."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = ConvBN(3, STEM, 3, 2, activation=nn.ReLU6)
        blocks, channels = [], STEM
        for expansion, outputs, count, first_stride in STAGES:
            for stride in (first_stride, *[1] * (count - 1)):
                blocks.append(InvertedResidual(channels, outputs, expansion, stride))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.top = ConvBN(channels, FEATURES, activation=nn.ReLU6)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.top(self.blocks(self.stem(x))))
        out: Tensor = self.head(y.flatten(1))
        return out


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, linear projection; plus the input if the shapes are equal."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        expand = [ConvBN(inputs, hidden, activation=nn.ReLU6)] if expansion > 1 else []
        self.body = nn.Sequential(
            *expand,
            ConvBN(hidden, hidden, 3, stride, depthwise=True, activation=nn.ReLU6),
            ConvBN(hidden, outputs, activation=None),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y
