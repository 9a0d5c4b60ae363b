# SPDX-License-Identifier: Apache-2.0
"""Nets that are large in one way each, to see that compiling them takes time and memory in proportion: `-m large.py:dense`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Model = tuple[nn.Module, tuple[Tensor, ...]]

DENSE_LAYERS = 160
CHAIN_LAYERS = 1000
WIDE = (4096, 3)
"""Features, and layers of them: 50 million weights."""


class Layer(nn.Module):
    """Convolution, batch norm, relu."""

    def __init__(self, channels: int, made: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, made, 1), nn.BatchNorm2d(made)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Dense(nn.Module):
    """Each layer reads all before it, the newest first: four calls a layer, and reads that grow with the square of the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(4 + 2 * i, 2) for i in range(DENSE_LAYERS))
        self.head = nn.Conv2d(4 + 2 * DENSE_LAYERS, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        known = [x]
        for layer in self.layers:
            known.insert(0, layer(torch.cat(known, 1)))
        return self.head(torch.cat(known, 1))


def dense() -> Model:
    """641 calls, 13,000 reads."""
    torch.manual_seed(0)
    return Dense().eval(), (torch.randn(1, 4, 4, 4),)


def chain() -> Model:
    """2,000 calls in a row."""
    torch.manual_seed(0)
    layers = [part for _ in range(CHAIN_LAYERS) for part in (nn.Conv2d(4, 4, 1), nn.Sigmoid())]
    return nn.Sequential(*layers).eval(), (torch.randn(1, 4, 4, 4),)


def wide() -> Model:
    """Few calls, and weights of 200 MB."""
    torch.manual_seed(0)
    features, count = WIDE
    layers = [part for _ in range(count) for part in (nn.Linear(features, features), nn.ReLU())]
    return nn.Sequential(*layers).eval(), (torch.randn(1, features),)
