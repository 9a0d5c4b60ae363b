# SPDX-License-Identifier: Apache-2.0
"""Compilation looks at its own answers on calibration samples, and warns where little of them is left."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from pillion.compile_options import Quantization
from pillion.errors import PillionWarning
from pillion.importers.torch.quantize.ptq import ptq
from pillion.option_values import Precision


class LogOfSquares(nn.Module):
    """Squares of eight bits hold the upper half of their decibels; a logarithm makes the lower half as large."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        power = self.layer(x)
        power = power * power
        return torch.log(power + 1e-6)


class Scores(nn.Module):
    """Ten scores of which two are nearly the same and decide."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 10, bias=False)
        with torch.no_grad():
            self.layer.weight.zero_()
            self.layer.weight[0], self.layer.weight[1] = 1.0, 1.0
            self.layer.weight[0, 0], self.layer.weight[0, 1] = 1.001, 0.999

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.abs())


def said(
    model: nn.Module,
    count: int,
    *,
    calibrate: bool = True,
    shape: tuple[int, ...] = (1, 16),
    precision: Precision = "int8",
) -> list[str]:
    made = torch.Generator().manual_seed(1)
    data = [(torch.randn(shape, generator=made) * 10 ** (number % 3 - 1),) for number in range(count)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuning = Quantization(precision=precision)
        ptq(model.eval(), data[0], data if calibrate else None, tuning=tuning)
    return [str(one.message) for one in caught if issubclass(one.category, PillionWarning)]


def test_a_lost_output_is_named_with_the_tensor_where_it_is_lost() -> None:
    (message,) = said(LogOfSquares(), 8)
    assert "dB of output 0" in message
    assert "test_self_check.py:" in message
    assert "pillion compare" in message


def test_16_bits_are_named_where_tensors_have_8_and_help() -> None:
    (narrow,) = said(LogOfSquares(), 8)
    assert "--min-quality 30dB takes 16 bits where they count, --precision int16 everywhere" in narrow
    assert not said(LogOfSquares(), 8, precision="int16")
    (wide,) = said(Scores(), 24, shape=(1, 8), precision="int16")
    assert "16 bits" not in wide


def test_classes_that_change_are_counted() -> None:
    (message,) = said(Scores(), 24, shape=(1, 8))
    assert "changes the largest score of output 0 in " in message
    assert " of 24 samples" in message


@pytest.mark.parametrize(
    ("model", "calibrate"), [(nn.Sequential(nn.Linear(16, 8), nn.ReLU()), True), (LogOfSquares(), False)]
)
def test_good_answers_and_examples_alone_are_not_judged(model: nn.Module, calibrate: bool) -> None:
    assert not said(model, 8, calibrate=calibrate)


def test_models_with_loops_are_judged() -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 16)

        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(200 * self.head(self.gru(x)[0][:, -1]))

    torch.manual_seed(0)
    (message,) = said(Steps(), 4, shape=(1, 5, 4))
    assert "Most is lost" in message
