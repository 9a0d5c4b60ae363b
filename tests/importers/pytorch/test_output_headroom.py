# SPDX-License-Identifier: Apache-2.0
"""Outputs of few numbers have room beyond what calibration saw, as much as leaving one sample out asks for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.importers.torch.quantize.headroom import best_headroom


def spread(count: int, seed: int) -> list[Tensor]:
    """Ten numbers of each sample, one of which is often near the end and seldom far out."""
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(10, generator=made).double() for _ in range(count)]


def test_numbers_that_spread_get_room() -> None:
    assert 0.05 <= best_headroom(spread(8, 0)) <= 0.6


def test_more_samples_need_less() -> None:
    assert best_headroom(spread(300, 0)) <= 0.05


def test_numbers_that_are_nearly_the_same_in_all_samples_get_none() -> None:
    scores = torch.linspace(-3, 5, 10, dtype=torch.float64)
    assert best_headroom([scores + 0.003 * noise for noise in spread(8, 1)]) == 0


def test_nothing_seen_is_nothing_to_widen() -> None:
    assert best_headroom([torch.zeros(4, dtype=torch.float64)] * 5) == 0


class Scores(nn.Module):
    def __init__(self, *, positive: bool = False) -> None:
        super().__init__()
        self.layer, self.positive = nn.Linear(12, 6), positive

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y.relu() if self.positive else y


def end(net: nn.Module, count: int = 8, **tuning: str) -> tuple[float, float, float, float]:
    """The ends of the output's range, and what calibration saw."""
    data = [x.float()[None] for x in (torch.cat(spread(2, seed))[:12] for seed in range(count))]
    program = pillion.compile(
        net,
        data[0],
        target="cortex-m55",
        calibrate=data,
        progress=False,
        tuning=pillion.Tuning(**tuning),  # type: ignore[arg-type]
    )
    y = program.graph.producers[program.graph.outputs[0]].operands[0]
    with torch.no_grad():
        seen = torch.cat([net(x) for x in data])
    return *(y.scale * (q - y.zero_point) for q in (-128, 127)), float(seen.min()), float(seen.max())  # type: ignore[return-value]


@pytest.fixture
def scores() -> nn.Module:
    torch.manual_seed(0)
    return Scores().eval()


def test_an_output_has_room_on_both_sides(scores: nn.Module) -> None:
    low, high, least, most = end(scores)
    span = most - least
    assert low < least - 0.04 * span
    assert high > most + 0.04 * span
    assert high - low < 3.1 * span


def test_what_is_never_negative_stays_so() -> None:
    torch.manual_seed(0)
    low, high, least, most = end(Scores(positive=True).eval())
    assert low == least == 0
    assert high > 1.04 * most


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse"])
def test_ranges_that_are_asked_for_are_those(scores: nn.Module, ranges: str) -> None:
    low, high, least, most = end(scores, ranges=ranges)
    step = (high - low) / 255
    assert low > least - step
    assert high < most + step


def test_three_samples_say_too_little(scores: nn.Module) -> None:
    low, high, least, most = end(scores, count=3)
    assert high - low < 1.02 * (max(most, 0) - min(least, 0))
