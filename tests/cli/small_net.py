# SPDX-License-Identifier: Apache-2.0
"""A model as users keep it in a file."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).relu().mean((2, 3))
        return self.linear(y).softmax(-1)


def example_inputs() -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, 9, 7),)


def wide() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """More weights than a small chip has memory."""
    return nn.Linear(1024, 600), (torch.randn(1, 1024),)


class Strided(nn.Module):
    """Every second row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, (2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


def strided() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Strided(), example_inputs()
