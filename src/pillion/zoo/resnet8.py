# SPDX-License-Identifier: Apache-2.0
"""ResNet-8, the image classifier of MLPerf Tiny."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from pillion.zoo.conv_block import ConvBN

EPS = 1e-3  # Keras' default, with which the reference model was trained
BOTTOM_RIGHT = (0, 1, 0, 1)  # SAME padding of a 3x3 kernel at stride 2 over an even size


class ResNet8(nn.Module):
    """Three residual blocks of 16, 32 and 64 channels on a 32x32 image."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = ConvBN(3, 16, 3, eps=EPS)
        self.blocks = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.pool = nn.AvgPool2d(8)
        self.head = nn.Linear(64, classes)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.blocks(self.stem(x)))
        out: Tensor = self.softmax(self.head(y.flatten(1)))
        return out


class Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut: the input, or a 1x1 convolution if the size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        pad = BOTTOM_RIGHT if stride == 2 else None
        self.body = nn.Sequential(
            ConvBN(inputs, outputs, 3, stride, pad=pad, eps=EPS),
            ConvBN(outputs, outputs, 3, activation=None, eps=EPS),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.shortcut(x) + self.body(x))
