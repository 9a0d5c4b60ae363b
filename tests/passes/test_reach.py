# SPDX-License-Identifier: Apache-2.0
"""Results that would not fit 32 bits on their way to int8 are refused when a model is compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError

pytestmark = pytest.mark.torch


class Call(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def linear(factor: float) -> nn.Module:
    layer = nn.Linear(8, 3)
    nn.init.constant_(layer.weight, factor)
    return nn.Sequential(layer, nn.Hardtanh(0, 1))


MODELS: dict[str, Callable[[float], nn.Module]] = {
    "mul": lambda factor: Call(lambda x: (x * factor).clamp(0, 1)),
    "linear": linear,
    "batch_matmul": lambda factor: Call(lambda x: (torch.bmm(x, x.mT) * factor).clamp(0, 1)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("factor", [1e8, 1e12])
def test_steps_that_are_too_hard_are_refused(name: str, factor: float) -> None:
    x = (torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0)),)
    with pytest.raises(PillionError, match="fit 32 bits"):
        pillion.compile(MODELS[name](factor).eval(), x, target="cortex-m33")


@pytest.mark.parametrize("name", MODELS)
def test_hard_steps_are_right(name: str) -> None:
    x = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0))
    module = MODELS[name](1e4).eval()
    found = pillion.compile(module, (x,), target="cortex-m33").run(x)[0]
    with torch.no_grad():
        assert abs(module(x).numpy() - found).mean() < 0.05
