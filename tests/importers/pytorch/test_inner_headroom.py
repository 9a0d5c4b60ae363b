# SPDX-License-Identifier: Apache-2.0
"""Results of which calibration saw few values get headroom inside a model, too: means of a sentence, bags of words."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion

WORDS, TOPICS = 200, 4


class Text(nn.Module):
    """A classifier of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, 32)
        self.layers = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, TOPICS))

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.layers(self.bag(words))
        return scores


def texts(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns texts of twelve words, four of ten of which are of the text's topic, and the topics."""
    made = torch.Generator().manual_seed(seed)
    topics = torch.randint(TOPICS, (count, 1), generator=made)
    part = WORDS // TOPICS
    of_topic = topics * part + torch.randint(part, (count, 12), generator=made)
    is_of_topic = torch.rand(count, 12, generator=made) < 0.4
    words = torch.where(is_of_topic, of_topic, torch.randint(WORDS, (count, 12), generator=made))
    return words, topics.flatten()


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    torch.manual_seed(0)
    net = Text()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    words, topics = texts(512, 9)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(words), topics).backward()  # type: ignore[no-untyped-call]  # of PyTorch
        optimizer.step()
    return net.eval()


def decibels(net: nn.Module, data: list[Tensor], judged: list[Tensor]) -> float:
    """Returns the ratio of signal to noise of a compiled model's outputs."""
    program = pillion.compile(net, data[0], target="cortex-m55", calibrate=data, progress=False)
    with torch.no_grad():
        real = torch.cat([net(x) for x in judged])
    found = torch.cat([torch.from_numpy(program.run(x)[0]) for x in judged])
    return float(10 * torch.log10(real.square().sum() / (real - found).square().sum()))


def test_bags_of_other_words_are_not_clipped(trained: nn.Module) -> None:
    """30 dB with headroom at the output alone: bags, and what ReLU makes of them, were clipped."""
    data, judged = (list(texts(count, seed)[0].split(1)) for count, seed in ((16, 0), (60, 1)))
    assert decibels(trained, data, judged) > 34


def inner_range(net: nn.Module, data: list[Tensor]) -> tuple[float, float]:
    """Returns the range of what a linear layer at the end reads."""
    program = pillion.compile(net, data[0], target="cortex-m55", calibrate=data, progress=False)
    (linear,) = [op for op in program.graph.ops if op.kind == "linear"]
    x = linear.operands[0]
    low, high = (x.scale * (q - x.zero_point) for q in (-128, 127))
    return float(low), float(high)


class Features(nn.Module):
    """A mean over words, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x.mean(1))
        return scores


def test_means_have_room_that_shrinks_with_samples() -> None:
    torch.manual_seed(0)
    net = Features().eval()
    data = list(torch.randn(240, 8, 16, generator=torch.Generator().manual_seed(0)).split(1))
    rooms = []
    for count in (8, 60, 240):
        low, high = inner_range(net, data[:count])
        means = torch.cat(data[:count]).mean(1)
        rooms.append((high - low) / float(means.max() - means.min()) - 1)
    assert rooms[0] > 0.06
    assert all(more > less - 0.01 for more, less in pairwise(rooms))


def test_inputs_keep_the_range_of_calibration() -> None:
    torch.manual_seed(0)
    net = nn.Linear(16, 4).eval()
    data = list(torch.randn(8, 16, generator=torch.Generator().manual_seed(0)).split(1))
    low, high = inner_range(net, data)
    seen = torch.cat(data)
    assert high - low == pytest.approx(float(seen.max() - seen.min()), rel=0.01)
