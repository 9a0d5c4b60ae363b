# SPDX-License-Identifier: Apache-2.0
"""Tiny weights behind huge ones: what both make together is of ordinary size, and none of them becomes zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:calibration saw values:pillion.errors.PillionWarning"),
]


class Layers(nn.Module):
    """Two layers of which the first is multiplied by a factor, and the second divided by it."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(16, 24), nn.Linear(24, 8)
        with torch.no_grad():
            self.first.weight.mul_(factor), self.first.bias.mul_(factor), self.second.weight.div_(factor)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Products(nn.Module):
    """Numbers that are multiplied by a factor, and by tiny constants."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.row = factor, torch.linspace(1.0, 2.0, 16) / factor

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.factor) * self.row


@pytest.mark.turns(2)
@pytest.mark.parametrize("factor", [1.0, 1e15, 1e20])
@pytest.mark.parametrize("kind", [Layers, Products])
def test_the_quality_does_not_depend_on_the_factor(kind: type[nn.Module], factor: float) -> None:
    """Measured from 1e15 on: 0 dB, as all tiny factors became zero; now 37 and 39, as with 1."""
    made = torch.Generator().manual_seed(0)
    samples = [torch.randn(1, 16, generator=made) for _ in range(32)]
    net = kind(factor).eval()
    program = pillion.compile(net, samples[0], target="cortex-m55", calibrate=samples, progress=False)
    with torch.no_grad():
        wanted = np.stack([net(x).double().numpy() for x in samples])
    found = np.stack([program.run(x)[0] for x in samples])
    assert 10 * math.log10(np.square(wanted).sum() / np.square(wanted - found).sum()) >= 34
    assert program.run(samples[0], on="host")[0].tobytes() == found[0].tobytes()
