# SPDX-License-Identifier: Apache-2.0
"""Ranges end where the functions that read a tensor are flat."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pillion
from pillion.ops import Lut
from pillion.program import Program

pytestmark = pytest.mark.torch


class Net(nn.Module):
    """A layer whose results reach from about -12 to 12, and a function that reads them."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(16, 24), function
        with torch.no_grad():
            self.layer.weight *= 5

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def data(seed: int = 0) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(32, 16, generator=made) for _ in range(4)]


def compiled(function: Callable[[Tensor], Tensor]) -> Program:
    tuning = pillion.Tuning(ranges="minmax")
    return pillion.compile(
        Net(function).eval(), data()[0], target="cortex-m33", calibrate=data(), progress=False, tuning=tuning
    )


def reach(program: Program) -> tuple[float, float]:
    """The numbers that the operand of the function can hold."""
    (op,) = (op for op in program.graph.ops if isinstance(op, Lut))
    return tuple((level - op.x.zero_point) * op.x.scale for level in (-128, 127))  # type: ignore[return-value]  # two


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (F.hardswish, -3.0, None),
        (F.hardsigmoid, -3.0, 3.0),
        (F.gelu, -2.6, None),
        (torch.sigmoid, -6.9, 6.9),
        (torch.tanh, -3.5, 3.5),
        (F.elu, -4.4, None),
    ],
)
def test_no_level_is_spent_where_a_function_is_flat(
    function: Callable[[Tensor], Tensor], low: float, high: float | None
) -> None:
    found = reach(compiled(function))
    assert found[0] == pytest.approx(low, abs=0.25)
    if high is not None:
        assert found[1] == pytest.approx(high, abs=0.25)
    else:
        assert found[1] > 9


@pytest.mark.parametrize(
    "function", [lambda x: F.hardswish(x) + x, torch.abs, lambda x: F.hardswish(x.relu())]
)
def test_ranges_stay_without_saturation_or_with_other_readers(
    function: Callable[[Tensor], Tensor],
) -> None:
    low, high = reach(compiled(function))
    assert high > 9
    assert low < -9 or low == 0


def decibels(function: Callable[[Tensor], Tensor], program: Program) -> float:
    net, signal, noise = Net(function).eval(), 0.0, 0.0
    for x in data(1):
        with torch.no_grad():
            wanted = net(x).double()
        signal += float(wanted.square().sum())
        noise += float((wanted - torch.from_numpy(program.run(x)[0])).square().sum())
    return 10 * math.log10(signal / noise)


@pytest.mark.parametrize(
    ("function", "least"), [(torch.tanh, 35.2), (torch.sigmoid, 39.8), (F.hardsigmoid, 39.1)]
)
def test_answers_come_nearer(function: Callable[[Tensor], Tensor], least: float) -> None:
    """Measured: 35.7, 40.3 and 39.6 dB; with all that calibration saw, 33.0, 38.7 and 38.3."""
    assert decibels(function, compiled(function)) >= least


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_operands_on_one_side_keep_a_range(sign: float) -> None:
    """All of them lie beyond where the function jumps."""
    x = sign * (torch.rand(2, 7, generator=torch.Generator().manual_seed(0)) + 0.5)
    (found,) = pillion.compile(Chosen(), (x,), target="cortex-m33").run(x)
    assert (found == 1).all()


class Chosen(nn.Module):
    """A function that is flat but for one point."""

    def forward(self, x: Tensor) -> Tensor:
        return (x != 0).float()
