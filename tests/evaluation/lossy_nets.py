# SPDX-License-Identifier: Apache-2.0
"""Small compiled programs to evaluate."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

import pillion


class Net(nn.Module):
    """A classifier of odd images, with a layer of each usual kind."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).relu().mean((2, 3)))


class Same(nn.Module):
    """A model whose output is its input, nearly: what it should answer is known."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0


def samples(count: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


@cache
def classifier(target: str = "cortex-m55", batch: int = 1, **options: Any) -> pillion.Program:
    x = samples(32, 3, 9, 7)
    return pillion.compile(Net(), x[:batch], target=target, calibrate=(x,), name="net", **options)


@cache
def echo(width: int, **options: Any) -> pillion.Program:
    """A program that gives back its input from -1 to 1, in steps of 1/127."""
    ends = torch.linspace(-1, 1, width).reshape(1, width)
    return pillion.compile(Same(), ends, target="cortex-m33", calibrate=[ends], name="echo", **options)
