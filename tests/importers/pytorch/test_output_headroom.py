# SPDX-License-Identifier: Apache-2.0
"""Outputs of few numbers have room beyond what calibration saw, as much as the spread of the samples' extremes asks for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.importers.torch.quantize.headroom import range_with_headroom


def spread(count: int, seed: int) -> list[Tensor]:
    """Ten numbers of each sample, one of which is often near the end and seldom far out."""
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(10, generator=made).double() for _ in range(count)]


def rooms(samples: list[Tensor]) -> tuple[float, float]:
    """The room below and above, as parts of what was seen."""
    seen = torch.cat(samples)
    least, most = float(seen.min().clamp(max=0)), float(seen.max().clamp(min=0))
    low, high = range_with_headroom(samples)
    return (least - low) / (most - least or 1), (high - most) / (most - least or 1)


def test_numbers_that_spread_get_room() -> None:
    assert all(0.05 <= room <= 0.31 for room in rooms(spread(8, 0)))


def test_more_samples_need_less() -> None:
    assert max(rooms(spread(300, 0))) <= 0.05


def test_nearly_constant_values_get_no_headroom() -> None:
    scores = torch.linspace(-3, 5, 10, dtype=torch.float64)
    assert rooms([scores + 0.003 * noise for noise in spread(8, 1)]) == (0, 0)


def test_each_side_gets_its_own_room() -> None:
    """Here all samples end alike below, and differently above."""
    samples = [torch.cat([torch.tensor([-3.0]).double(), sample.abs()]) for sample in spread(8, 2)]
    below, above = rooms(samples)
    assert below == 0
    assert above > 0.05


def test_further_samples_are_cut_less() -> None:
    """One large score in few samples, as classifiers that were trained have: 50 sets of 16 samples calibrate, others judge."""
    made = torch.Generator().manual_seed(3)

    def drawn() -> list[Tensor]:
        scores = torch.randn(16, 10, generator=made).double() * 3
        scores[:, 0] += torch.empty(16).exponential_(0.25, generator=made)
        return list(scores)

    with_room = without = 0.0
    for _ in range(50):
        samples, others = drawn(), torch.cat(drawn())
        for room in (True, False):
            seen = torch.cat(samples)
            low, high = range_with_headroom(samples) if room else (float(seen.min()), float(seen.max()))
            error = (
                float((others - others.clamp(low, high)).square().sum())
                + len(others) * ((high - low) / 255) ** 2 / 12
            )
            with_room, without = with_room + error * room, without + error * (not room)
    assert with_room < 0.5 * without


def test_all_zero_outputs_get_no_headroom() -> None:
    assert rooms([torch.zeros(4, dtype=torch.float64)] * 5) == (0, 0)


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
    assert high - low < 1.65 * span


def test_nonnegative_ranges_get_no_negative_headroom() -> None:
    torch.manual_seed(0)
    low, high, least, most = end(Scores(positive=True).eval())
    assert low == least == 0
    assert high > 1.04 * most


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse"])
def test_minmax_ranges_have_no_headroom(scores: nn.Module, ranges: str) -> None:
    low, high, least, most = end(scores, ranges=ranges)
    step = (high - low) / 255
    assert low > least - step
    assert high < most + step


def test_three_samples_say_too_little(scores: nn.Module) -> None:
    low, high, least, most = end(scores, count=3)
    assert high - low < 1.02 * (max(most, 0) - min(least, 0))
