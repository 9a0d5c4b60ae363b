# SPDX-License-Identifier: Apache-2.0
"""What a choice of 16-bit tensors believes of tensors in 8 bits: other samples reach farther than those that it knows."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule
from torchao.quantization.pt2e import MinMaxObserver

import pillion
from pillion.errors import PillionError
from pillion.importers.torch.quantize.expected_clipping import clipped_levels
from pillion.importers.torch.quantize.precision import SymmetricObserver
from pillion.importers.torch.quantize.self_check import signal_to_noise_db


class Peaks(nn.Module):
    """Where four features are in an image: few of many shares decide, and some samples have higher peaks."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 1, 1))
        self.register_buffer("places", torch.linspace(-1, 1, 8).repeat(8))

    def forward(self, x: Tensor) -> Tensor:
        shares = torch.softmax(24 * self.features(x).flatten(2), -1)
        return (shares * self.places).sum(-1)


def images(count: int, seed: int) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 3, 16, 16, generator=made) for _ in range(count)]


@pytest.mark.parametrize("count", [8, 32])
def test_a_choice_expects_higher_peaks_of_other_samples(count: int) -> None:
    """After calibration by 8 samples, others have 26 dB in 8 bits; those that choose alone show 31."""
    torch.manual_seed(1)
    net, data, others = Peaks().eval(), images(count, 0), images(96, 1)
    program, chosen = (
        pillion.compile(net, data[0], target="cortex-m55", calibrate=data, progress=False, **options)
        for options in ({}, {"max_time": "+0%"})
    )
    found = [torch.from_numpy(np.asarray(program.run(x.numpy())[0])) for x in others]
    ratio = signal_to_noise_db([net(x).detach()[0] for x in others], found)
    choice = chosen.precision
    assert choice is not None
    assert ratio is not None
    assert ratio - 4 < choice.before < ratio < choice.everywhere


class Observed(nn.Module):
    """One observed tensor."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.observer = MinMaxObserver(dtype=torch.int8, quant_min=-128, quant_max=127)
        self.observer(torch.tensor([low, high]))

    def forward(self, x: Tensor) -> Tensor:
        return self.observer(x)


@pytest.mark.parametrize(
    ("largest", "low", "high", "is_clipped"),
    [
        ((0.7, 0.8, 0.9, 1.0), 0.0, 1.0, True),
        ((0.7, 0.8, 0.9, 1.0), 0.0, 3.0, False),
        ((1.0, 1.0, 1.0, 1.0), 0.0, 1.0, False),
        ((0.8, 0.9, 1.0), 0.0, 1.0, False),
    ],
    ids=["scattered", "with room", "equal", "too few"],
)
def test_the_largest_sample_is_clipped_where_others_may_reach_farther(
    largest: tuple[float, ...], low: float, high: float, is_clipped: bool
) -> None:
    module = Observed(low, high)
    observer = module.observer
    traced: GraphModule = GraphModule(module, _graph())
    levels = clipped_levels(traced, [observer], [(torch.tensor([0.0, one]),) for one in largest])
    least, most = levels.get(observer, (observer.quant_min, observer.quant_max))
    scale, zero_point = (float(value) for value in observer.calculate_qparams())
    assert least <= observer.quant_min  # no sample is below zero
    assert ((most - zero_point) * scale < max(largest) - scale) is is_clipped


def test_silent_samples_do_not_widen_expected_ranges() -> None:
    module = Observed(0.0, 1.0)
    ends = (0.0, 0.0, 0.0, 0.0, 0.97, 0.98, 0.99, 1.0)
    samples = [(torch.tensor([0.0, end]),) for end in ends]
    (levels,) = clipped_levels(GraphModule(module, _graph()), [module.observer], samples).values()
    scale, zero_point = (float(value) for value in module.observer.calculate_qparams())
    assert 0.9 < (levels[1] - zero_point) * scale < 0.99


def test_observers_of_16_bits_keep_the_observers_that_they_widen() -> None:
    module = Observed(0.0, 1.0)
    coarse = module.observer
    module.observer = SymmetricObserver(coarse)
    clipped_levels(GraphModule(module, _graph()), [coarse], [(torch.tensor([0.0, 1.0]),)] * 4)
    assert module.observer.coarse is coarse


def _graph() -> Graph:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("observer", (x,)))
    return graph


def test_refusals_report_the_quality_of_8_bit_weights() -> None:
    """Of each layer, one column of large weights takes the steps of all others; the first one's inputs are small."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight[:, 0] *= 30
    sizes, made = torch.tensor([0.02] + [1.0] * 47), torch.Generator().manual_seed(1)
    data = [torch.randn(4, 48, generator=made) * sizes for _ in range(16)]
    with pytest.raises(PillionError, match="no choice of 16-bit tensors") as refused:
        pillion.compile(net, data[0], target="cortex-m55", calibrate=data, min_quality="45dB", progress=False)
    found = re.search(
        r"With weights that are not rounded to 8 bits, it would be ([\d.]+) dB", str(refused.value.help)
    )
    assert found
    assert float(found[1]) > 45


def test_a_refusal_says_that_few_samples_are_the_cause_and_offers_1_db_less() -> None:
    torch.manual_seed(1)
    net, data = Peaks().eval(), images(8, 0)
    given = {"target": "cortex-m55", "calibrate": data, "progress": False}
    choice = pillion.compile(net, data[0], max_time="+0%", **given).precision
    assert choice is not None
    with pytest.raises(PillionError, match="no choice of 16-bit tensors") as refused:
        pillion.compile(net, data[0], min_quality=f"{choice.everywhere + 0.2:.2f}dB", **given)
    assert "more varied calibration data" in str(refused.value.help)
    offered = re.search(r"--min-quality ([\d.]+)dB", str(refused.value.help))
    assert offered
    assert 1 <= choice.everywhere - float(offered[1]) < 1.1
