# SPDX-License-Identifier: Apache-2.0
"""Whatever the size of the numbers, the precision is the same: samples of 16 bits, volts of an electrode, and ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.importers.torch.train import trained_ranges

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def decibels(module: nn.Module, samples: list[Tensor]) -> float:
    program = pillion.compile(module, (samples[0],), target="cortex-m33", calibrate=[(x,) for x in samples])
    with torch.no_grad():
        pairs = [(module(x).numpy(), program.run(x)[0]) for x in samples]
    wanted, found = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return float(10 * np.log10((wanted**2).mean() / ((wanted - found) ** 2).mean()))


@pytest.mark.parametrize("size", [1e-8, 1e-5, 1.0, 32768.0, 1e6])
def test_layers_with_norms_on_inputs_of_any_size(size: float) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    samples = [torch.randn(4, 3, 9, 7) * size for _ in range(3)]
    for x in samples * 20:
        module(x)
    assert decibels(module.eval(), samples) > 35


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.linear = factor, nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x / self.factor)


@pytest.mark.parametrize("factor", [2.0**31, 1e10, 1e-6])
def test_constant_factors_are_exact(factor: float) -> None:
    torch.manual_seed(0)
    assert decibels(Scaled(factor).eval(), [torch.randn(5, 16) * factor]) > 38


@pytest.mark.parametrize("zeros", [slice(None), slice(1, 3)], ids=["all", "some channels"])
def test_all_zero_tensors_get_a_scale(zeros: slice) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 5, 1)
    with torch.no_grad():
        layer.weight[zeros] = 0
        layer.bias[zeros] = 0
    x = torch.randn(2, 3, 4, 5)
    program = pillion.compile(nn.Sequential(layer, nn.ReLU()).eval(), (x,), target="cortex-m33")
    assert not program.run(x)[0][:, zeros].any()


def test_observers_of_zeros_and_of_tiny_values_have_scales() -> None:
    observer = trained_ranges.MinMaxRangeObserver(
        dtype=torch.int8, quant_min=-128, quant_max=127, eps=trained_ranges.SMALLEST_SCALE
    )
    observer(torch.zeros(3))
    assert float(observer.calculate_qparams()[0]) == trained_ranges.ZERO_SCALE
    observer(torch.tensor([0.0, 255e-12]))
    assert float(observer.calculate_qparams()[0]) == pytest.approx(1e-12)
