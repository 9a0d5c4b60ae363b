# SPDX-License-Identifier: Apache-2.0
"""Modules for what comes after a network: they compute what they say, and their programs follow them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion.modules
from pillion import PillionError
from pillion.modules import (
    AnchorDecoder,
    CentreDecoder,
    CentreDistance,
    DflDecoder,
    KeywordDetector,
    NonMaxSuppression,
    PosteriorSmoother,
    ReconstructionError,
)

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "before-and-after.md"
STEPS = 2000
POINTS = torch.cartesian_prod(torch.arange(5.0), torch.arange(7.0)) * 8 + 4


def boxes(number: int, batch: int = 1) -> Tensor:
    """Boxes of a picture of 90 pixels, of which many overlap."""
    middle, half = torch.rand(batch, number, 2) * 90, 5 + torch.rand(batch, number, 2) * 20
    return torch.cat([middle - half, middle + half], -1)


def heat() -> tuple[Tensor, Tensor, Tensor]:
    """Maps with five peaks of different height, two of them at the border."""
    map_ = torch.rand(1, 3, 7, 9) * 0.1
    for number, place in enumerate((0, 13, 31, 48, 62)):
        map_[0, number % 3].view(-1)[place] = 0.95 - 0.12 * number
    return map_, 1 + torch.rand(1, 2, 7, 9) * 3, torch.rand(1, 2, 7, 9)


@dataclass(frozen=True)
class Case:
    """A module, its data, and the least dB of its first output over ten samples, with int8 and with 16 bits."""

    make: Callable[[], nn.Module]
    data: Callable[[], tuple[Tensor, ...]]
    least: tuple[float, float]


CASES = {
    "distance": Case(lambda: CentreDistance(torch.randn(3, 7)), lambda: (torch.randn(2, 7),), (37, 53)),
    "reconstruction": Case(ReconstructionError, lambda: (torch.randn(2, 13), torch.randn(2, 13)), (33, 64)),
    "anchors": Case(
        lambda: AnchorDecoder(torch.cat([torch.rand(33, 2), 0.1 + 0.4 * torch.rand(33, 2)], 1)),
        lambda: (torch.randn(2, 33, 4) * 2,),
        (38, 50),
    ),
    "dfl": Case(
        lambda: DflDecoder(POINTS, torch.full((35, 1), 8.0)), lambda: (torch.randn(2, 64, 35) * 3,), (40, 50)
    ),
    "centres": Case(lambda: CentreDecoder(5), heat, (45, 52)),
    "suppression": Case(
        lambda: NonMaxSuppression(3, 0.45, 0.3), lambda: (boxes(11), torch.rand(1, 11)), (47, 80)
    ),
}


def decibels(exact: np.ndarray, ours: np.ndarray) -> float:
    error = float(np.square(exact - ours).sum())
    return 10 * np.log10(float(np.square(exact).sum()) / error) if error else np.inf


@needs_cc
@pytest.mark.slow
@pytest.mark.turns(4)
@pytest.mark.parametrize("int16", [None, "*"])
@pytest.mark.parametrize("name", CASES)
def test_programs_follow_their_modules(name: str, int16: str | None) -> None:
    torch.manual_seed(3)
    case = CASES[name]
    module, samples = case.make().eval(), [case.data() for _ in range(32)]
    program = pillion.compile(module, samples[0], target="cortex-m55", calibrate=samples, int16=int16)
    exact, ours = [], []
    for number, sample in enumerate(case.data() for _ in range(10)):
        given = [x.numpy() for x in sample]
        outputs = program.run(*given)
        for executor in ("host", "mps3-an547") if number == 0 else ():
            for a, b in zip(outputs, program.run(*given, on=executor), strict=True):
                np.testing.assert_array_equal(a, b)
        of_module = module(*sample)
        first = of_module if isinstance(of_module, Tensor) else of_module[0]
        exact.append(first.detach().numpy())
        ours.append(outputs[0])
    assert decibels(np.stack(exact), np.stack(ours)) > case.least[int16 is not None]


class Listener(nn.Module):
    """Events from logits of three words and a background."""

    def __init__(self) -> None:
        super().__init__()
        self.smooth, self.detect = PosteriorSmoother(4, 5), KeywordDetector(0.5, 7)

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        event, score = self.detect(self.smooth(logits.softmax(1)))
        return event, score


def spoken() -> Tensor:
    """Logits in which words of eight steps come and go."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(STEPS, 4, generator=generator)
    words = torch.randint(0, 8, (STEPS // 10,), generator=generator)
    for start, word in zip(range(0, STEPS, 10), words.tolist(), strict=True):
        logits[start : start + 8, word if word < 4 else 0] += 4
    return logits


def events_by_hand(logits: Tensor) -> tuple[list[int], list[float]]:
    """The rule in plain Python: an average of five, a threshold, seven runs of rest, at the start too."""
    shares = torch.cat([torch.zeros(4, 4), logits.softmax(1)]).double()
    events, scores, rest = [], [], 7
    for step in range(len(logits)):
        average = shares[step : step + 5].mean(0)[1:]
        fires = rest == 0 and float(average.max()) >= 0.5
        events.append(int(average.argmax()) + 1 if fires else 0)
        scores.append(float(average.max()))
        rest = 7 if fires else max(rest - 1, 0)
    return events, scores


@needs_cc
@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize("int16", [None, "*"])
def test_events_do_not_drift(int16: str | None) -> None:
    logits = spoken()
    net, steps = Listener().eval(), [row[None] for row in logits]
    events, scores = events_by_hand(logits)
    plain = deepcopy(net)
    assert [int(plain(x)[0]) for x in steps] == events
    # Calibration hears the background alone: an event later has its exact effect nevertheless.
    quiet = [(torch.randn(1, 4) + torch.tensor([5.0, 0, 0, 0]),) for _ in range(64)]
    for heard in ([(x,) for x in steps[:200]], quiet):
        program = pillion.compile(net, steps[0], target="cortex-m33", calibrate=heard, int16=int16)
        given = [[x.numpy()] for x in steps]
        ours = program.stream().run(given)
        for executor, count in (("host", STEPS), ("mps2-an505", 300)):
            for a, b in zip(program.stream(executor).run(given[:count]), ours, strict=False):
                assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        made = np.array([float(score.item()) for _, score in ours])
        for part in (slice(STEPS), slice(STEPS - 200, STEPS)):
            assert decibels(np.array(scores[part]), made[part]) > 40
        found = [int(event.item()) for event, _ in ours]
        assert sum(a == b for a, b in zip(found, events, strict=True)) > 0.99 * STEPS
        at = np.flatnonzero(found)
        assert len(at) > 50
        assert np.diff(at).min() > 7
        assert at[0] >= 7


def suppressed(boxes: Tensor, scores: Tensor, most: int, overlap: float, least: float) -> list[int]:
    """Greedy suppression, as torchvision's nms has it."""
    chosen: list[int] = []
    for place in scores.argsort(descending=True).tolist():
        corners = torch.maximum(boxes[chosen, :2], boxes[place, :2])
        sides = (torch.minimum(boxes[chosen, 2:], boxes[place, 2:]) - corners).relu()
        common = sides.prod(1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        shares = common / (area[chosen] + area[place] - common)
        if scores[place] > least and len(chosen) < most and not bool((shares > overlap).any()):
            chosen.append(place)
    return chosen


@needs_cc
def test_the_page_has_every_module_and_its_example_runs() -> None:
    page = PAGE.read_text()
    pages = page + "".join(
        (PAGE.parent / name).read_text() for name in ("pictures.md", "motion.md", "sound.md")
    )
    assert set(re.findall(r"^\| `(\w+)\(", pages, re.MULTILINE)) == set(pillion.modules.__all__)
    torch.manual_seed(6)
    frames = [torch.randn(1, 3, 4) for _ in range(20)]
    names: dict[str, Any] = {
        "net": nn.Sequential(nn.Flatten(), nn.Linear(12, 5)),
        "frame": frames[0],
        "frames": frames,
    }
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], names)
    assert len(names["events"]) == 20


def test_suppression_is_greedy() -> None:
    torch.manual_seed(1)
    for number, most in ((1, 1), (2, 4), (37, 7), (101, 20)):
        given, scores = boxes(number, 3), torch.rand(3, number)
        found, best, places = NonMaxSuppression(most, 0.45, 0.3)(given, scores)
        for image in range(3):
            expected = suppressed(given[image], scores[image], most, 0.45, 0.3)
            count = int((best[image] > 0).sum())
            assert places[image, :count].tolist() == expected
            assert torch.equal(found[image, :count], given[image, expected])


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
def test_suppression_equals_the_pytorch_module(batch: int) -> None:
    """Of whole levels, with equal scores, equal boxes, empty ones and ties at the threshold."""
    rng = np.random.default_rng(batch)

    def sample(number: int = 41) -> tuple[Tensor, Tensor]:
        corners = rng.integers(0, 12, (batch, number, 4))
        corners[..., 2:] += rng.integers(-2, 12, (batch, number, 2)) * (rng.random((batch, number, 1)) < 0.9)
        corners[0, :2] = (0, 0, 0, 0), (255, 255, 255, 255)
        scores = rng.integers(0, 12, (batch, number)) / 255 * 20
        scores[0, :2] = 0, 1
        return torch.tensor(corners.clip(0, 255)).float(), torch.tensor(scores).float()

    samples = [sample() for _ in range(8)]
    module = NonMaxSuppression(9, 0.5, 0.3).eval()
    program = pillion.compile(module, samples[0], target="cortex-m33", calibrate=samples)
    kinds = [op.kind for op in program.graph.ops]
    assert kinds.count("non_max_suppression") == 1
    assert len(kinds) < 20
    for number, one in enumerate(samples):
        given = [x.numpy() for x in one]
        outputs = program.run(*given)
        for expected, ours in zip(module(*one), outputs, strict=True):
            np.testing.assert_allclose(ours, expected.numpy(), atol=1e-5)
        for executor in ("host", "mps2-an505") if number == 0 else ("host",):
            for a, b in zip(outputs, program.run(*given, on=executor), strict=True):
                np.testing.assert_array_equal(a, b)


class OfAnchors(nn.Module):
    """Scores of boxes that never change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("boxes", boxes(13))
        self.suppress = NonMaxSuppression(4, 0.3)

    def forward(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[Tensor, Tensor, Tensor] = self.suppress(self.boxes, scores)
        return found


@needs_cc
@pytest.mark.slow
def test_boxes_may_be_constants(tmp_path: Path) -> None:
    torch.manual_seed(5)
    module, samples = OfAnchors().eval(), [(torch.randperm(13)[None] / 12,) for _ in range(8)]
    program = pillion.compile(module, samples[0], target="cortex-m0plus", calibrate=samples)
    for (scores,) in samples:
        outputs = program.run(scores.numpy())
        assert outputs[2].tolist() == module(scores)[2].tolist()
        for a, b in zip(outputs, program.run(scores.numpy(), on="host"), strict=True):
            np.testing.assert_array_equal(a, b)
    for name in ("net.tflite", "net.pte"):
        with pytest.raises(PillionError, match=r"non_max_suppression.*has no exact"):
            program.save(tmp_path / name)


def test_decoders_invert_encoders() -> None:
    torch.manual_seed(2)
    anchors, wanted = torch.cat([torch.rand(9, 2), 0.1 + torch.rand(9, 2)], 1), boxes(9)[0]
    middle, sizes = (wanted[:, :2] + wanted[:, 2:]) / 2, wanted[:, 2:] - wanted[:, :2]
    codes = torch.cat(
        [(middle - anchors[:, :2]) / anchors[:, 2:] * 10, (sizes / anchors[:, 2:]).log() * 5], 1
    )
    torch.testing.assert_close(AnchorDecoder(anchors)(codes[None])[0], wanted, rtol=1e-4, atol=1e-4)

    # All weight on one bin: the distance is the bin's number in strides.
    bins = torch.randint(0, 16, (4, 35))
    logits = torch.nn.functional.one_hot(bins, 16).float().mul(99).permute(0, 2, 1).reshape(1, 64, 35)
    found = DflDecoder(POINTS, torch.full((35, 1), 8.0))(logits)[0]
    expected = torch.cat([POINTS - 8 * bins[:2].T, POINTS + 8 * bins[2:].T], 1)
    torch.testing.assert_close(found, expected)

    map_, sizes, offsets = heat()
    found, scores, kinds = CentreDecoder(5, 4.0)(map_, sizes, offsets)
    places = [0, 13, 31, 48, 62]
    centres = torch.tensor([(p % 9, p // 9) for p in places]) + offsets.flatten(2)[0, :, places].T
    torch.testing.assert_close((found[0, :, :2] + found[0, :, 2:]) / 2, centres * 4)
    torch.testing.assert_close(found[0, :, 2:] - found[0, :, :2], sizes.flatten(2)[0, :, places].T * 4)
    torch.testing.assert_close(scores[0], torch.tensor([0.95, 0.83, 0.71, 0.59, 0.47]))
    assert kinds[0].tolist() == [0, 1, 2, 0, 1]


def test_scores_of_anomalies() -> None:
    torch.manual_seed(4)
    centres, x = torch.randn(5, 3), torch.randn(11, 3)
    distance = CentreDistance(centres)
    torch.testing.assert_close(distance(x)[:, 0], torch.cdist(x, centres).amin(1))
    distance(x).sum().backward()
    assert distance.centres.grad is not None
    assert bool(distance.centres.grad.abs().sum() > 0)
    y = torch.randn(11, 3)
    expected = torch.stack([torch.nn.functional.mse_loss(a, b) for a, b in zip(x, y, strict=True)])
    torch.testing.assert_close(ReconstructionError()(x, y)[:, 0], expected)


@pytest.mark.parametrize(
    ("make", "here"),
    [
        (lambda: PosteriorSmoother(4, 1), "(4, 1)"),
        (lambda: KeywordDetector(1.5, 3), "(1.5, 3)"),
        (lambda: CentreDistance(torch.zeros(3)), "torch.Size([3])"),
        (lambda: CentreDistance(torch.full((2, 2), float("nan"))), "infinite or no number"),
        (lambda: AnchorDecoder(torch.zeros(3, 5)), "torch.Size([3, 5])"),
        (lambda: AnchorDecoder(torch.ones(3, 4), (1, 1, 0, 1)), "(1, 1, 0, 1)"),
        (lambda: DflDecoder(POINTS, torch.ones(3, 1)), "(torch.Size([35, 2]), torch.Size([3, 1]))"),
        (lambda: CentreDecoder(0), "(0, 4.0)"),
        (lambda: NonMaxSuppression(3, 1.0), "(3, 1.0, 0.25)"),
    ],
)
def test_arguments_that_make_no_module(make: Callable[[], nn.Module], here: str) -> None:
    with pytest.raises(PillionError) as caught:
        make()
    assert caught.value.here == here
    assert "help(pillion.modules." in caught.value.help
