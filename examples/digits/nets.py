# SPDX-License-Identifier: Apache-2.0
"""Two networks for digits of 8 x 8 pixels: one that rounds well, and one whose channels differ in range by orders of magnitude."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SIZE, CLASSES = 8, 10
SMALLEST_GAIN = 2.0**-9
"""Of a channel in the unbalanced network: the largest channel leaves less than one int8 step for it."""


def example_inputs() -> tuple[Tensor]:
    """What one image looks like: `pillion` asks for this beside a network."""
    return (torch.zeros(1, 1, SIZE, SIZE),)


class Small(nn.Module):
    """Convolutions and linear layers, each with a batch norm that is folded into it."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(128, 32, bias=False),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(32, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class Separable(nn.Module):
    """A depthwise convolution and a pointwise one that reads its channels."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs, bias=False)
        self.norm1 = nn.BatchNorm2d(inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm1(self.depthwise(x)))
        return torch.relu(self.norm2(self.pointwise(x)))


class Stack(nn.Module):
    """Depthwise layers one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.blocks = nn.Sequential(Separable(16, 32), Separable(32, 32, stride=2), Separable(32, 32))
        self.classifier = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(torch.relu(self.stem(x)))
        return self.classifier(x.mean((2, 3)))


def unbalance(stack: Stack) -> None:
    """Gives the channels behind each depthwise layer gains between 1 and `SMALLEST_GAIN`, which the pointwise layer takes back.

    In float nothing changes, since relu(g x) = g relu(x). In int8 a tensor has one scale, and the small channels are rounded away.
    Depthwise networks are known to come out of long trainings like this; here it is done to a small one on purpose."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for block in stack.blocks:
            channels = block.norm1.num_features
            gains = SMALLEST_GAIN ** torch.rand(channels, generator=random)
            block.norm1.weight *= gains
            block.norm1.bias *= gains
            block.pointwise.weight /= gains.reshape(1, -1, 1, 1)
