# SPDX-License-Identifier: Apache-2.0
"""Constant factors behind layers, such as scales of residual branches, become part of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.ops import Mul

pytestmark = pytest.mark.torch


class Scaled(nn.Module):
    """A layer whose result is multiplied by parameters of some shape, as in ConvNeXt."""

    def __init__(self, layer: nn.Module, *shape: int, is_first: bool = False) -> None:
        super().__init__()
        self.layer, self.is_first = layer, is_first
        self.gamma = nn.Parameter(torch.linspace(-0.55, 2, int(np.prod(shape))).reshape(shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.gamma * self.layer(x) if self.is_first else self.layer(x) * self.gamma


class ReadTwice(Scaled):
    """The layer's result is read before the factor, too."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y * self.gamma + y


IMAGE = (2, 6, 9, 7)
FOLDED: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "conv2d": (Scaled(nn.Conv2d(6, 5, 3), 5, 1, 1), IMAGE),
    "conv2d, one number first": (Scaled(nn.Conv2d(6, 5, 3, bias=False), 1, is_first=True), IMAGE),
    "depthwise": (Scaled(nn.Conv2d(6, 12, 3, groups=6), 1, 12, 1, 1), IMAGE),
    "transposed": (Scaled(nn.ConvTranspose2d(6, 4, 2, 2, groups=2), 4, 1, 1), IMAGE),
    "conv1d": (Scaled(nn.Conv1d(6, 5, 3), 5, 1), (2, 6, 9)),
    "linear": (Scaled(nn.Linear(7, 4), 4), (3, 7)),
    "linear of images": (Scaled(nn.Linear(7, 4), 1, 1, 4), IMAGE),
    "norm between": (Scaled(nn.Sequential(nn.Conv2d(6, 5, 3), nn.BatchNorm2d(5)), 5, 1, 1), IMAGE),
}
KEPT: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "another axis": (Scaled(nn.Conv2d(6, 5, 3), 7, 5), IMAGE),
    "a larger result": (Scaled(nn.Conv2d(6, 1, 3), 5, 1, 1), IMAGE),
    "read twice": (ReadTwice(nn.Conv2d(6, 5, 3), 5, 1, 1), IMAGE),
    "rows of a linear layer": (Scaled(nn.Linear(7, 4), 9, 1), IMAGE),
}


@pytest.mark.parametrize("shape", [(1, 4, 1), (4, 1, 1)])
def test_images_without_batch_are_right(shape: tuple[int, ...]) -> None:
    """Their second axis is not that of the channels, which are as many here."""
    torch.manual_seed(0)
    program, quality = compiled(Scaled(nn.Conv2d(6, 4, 3), *shape), (6, 6, 7), precision="int16")
    assert quality > 33
    assert program.graph.outputs[0].shape == (4, 4, 5)


def compiled(module: nn.Module, shape: tuple[int, ...], **options: Any) -> tuple[pillion.Program, float]:
    """A program, and its distance to float in dB."""
    torch.manual_seed(0)
    data = [torch.randn(shape) for _ in range(8)]
    module = module.eval()
    program = pillion.compile(module, data[0], target="cortex-m33", calibrate=data, progress=False, **options)
    with torch.no_grad():
        wanted = np.concatenate([module(x).numpy().ravel() for x in data])
    found = np.concatenate([np.asarray(program.run(x.numpy())[0]).ravel() for x in data])
    return program, float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


@pytest.mark.parametrize("name", FOLDED)
def test_factors_become_weights(name: str) -> None:
    program, quality = compiled(*FOLDED[name])
    assert not [op for op in program.graph.ops if isinstance(op, Mul)]
    assert quality > 33


@pytest.mark.parametrize("name", KEPT)
def test_other_products_stay(name: str) -> None:
    program, quality = compiled(*KEPT[name], precision="int16")
    assert [op for op in program.graph.ops if isinstance(op, Mul)]
    assert quality > 33
