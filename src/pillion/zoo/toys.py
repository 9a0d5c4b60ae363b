# SPDX-License-Identifier: Apache-2.0
"""Models of a few layers, small enough to read the complete output of every stage."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from pillion.zoo.conv_block import ConvBN


class ConvBnRelu(nn.Module):
    """A toy network of one 3x3 convolution with batch norm and relu."""

    def __init__(self) -> None:
        super().__init__()
        self.block = ConvBN(3, 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(x)
        return out


class LinearBn(nn.Module):
    """A toy network of a dense layer, batch norm, relu, and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(F.relu(self.norm(self.linear(x))))
        return out


class SeparableResidual(nn.Module):
    """A toy network of a strided stem, a depthwise-separable block with a shortcut around it, a mean and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBN(3, 16, 3, 2)
        self.depthwise = ConvBN(16, 16, 3, depthwise=True)
        self.pointwise = ConvBN(16, 16, activation=None)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        y = F.relu(y + self.pointwise(self.depthwise(y)))
        out: Tensor = self.head(y.mean(dim=(2, 3)))
        return out
