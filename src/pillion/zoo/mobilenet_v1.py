# SPDX-License-Identifier: Apache-2.0
"""MobileNetV1 at width 0.25, the person detector of MLPerf Tiny."""

from __future__ import annotations

from torch import Tensor, nn

from pillion.zoo.conv_block import ConvBN

EPS = 1e-3  # Keras' default, with which the reference model was trained
BOTTOM_RIGHT = (0, 1, 0, 1)  # SAME padding of a 3x3 kernel at stride 2 over an even size
STEM = 8
BLOCKS = (  # output channels, stride
    (16, 1),
    (32, 2),
    (32, 1),
    (64, 2),
    (64, 1),
    (128, 2),
    *[(128, 1)] * 5,
    (256, 2),
    (256, 1),
)


class MobileNetV1(nn.Module):
    """Thirteen depthwise-separable blocks on a 96x96 image."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.stem = ConvBN(3, STEM, 3, 2, pad=BOTTOM_RIGHT, eps=EPS)
        blocks, channels = [], STEM
        for outputs, stride in BLOCKS:
            blocks.append(_separable_block(channels, outputs, stride))
            channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d(3)
        self.head = nn.Linear(channels, classes)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.blocks(self.stem(x)))
        out: Tensor = self.softmax(self.head(y.flatten(1)))
        return out


def _separable_block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    pad = BOTTOM_RIGHT if stride == 2 else None
    return nn.Sequential(
        ConvBN(inputs, inputs, 3, stride, depthwise=True, pad=pad, eps=EPS), ConvBN(inputs, outputs, eps=EPS)
    )
