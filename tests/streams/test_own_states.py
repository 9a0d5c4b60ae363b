# SPDX-License-Identifier: Apache-2.0
"""Models that are streamed and have states of their own: these change once in each call."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import PillionError
from pillion.emitters.c.actions import branches_in
from pillion.modules import Cascade, KeywordDetector, Pcen, PosteriorSmoother

FRAMES, BANDS, SMOOTHED, HOP, RUNS = 12, 5, 3, 2, 40


class Scores(nn.Module):
    """The posteriors of a window, and their mean over some runs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv1d(BANDS, 8, 3)
        self.classifier = nn.Linear(8, 3)
        self.smoother = PosteriorSmoother(3, SMOOTHED)
        self.detector = KeywordDetector(0.4, 7)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.classifier(self.conv(x).relu().amax(2)).softmax(1)
        smooth = self.smoother(scores)
        event, _ = self.detector(smooth)
        return scores, smooth, event


def signal() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 3 * torch.randn(1, BANDS, FRAMES + HOP * RUNS, generator=generator)


def windows() -> list[Tensor]:
    return [signal()[:, :, HOP * run : HOP * run + FRAMES] for run in range(RUNS)]


@pytest.fixture(scope="module")
def programs() -> tuple[pillion.Program, pillion.Program]:
    """The whole window's, and a stream's."""
    data = [(x,) for x in windows()]
    options = {"target": "cortex-m55", "calibrate": data, "io_dtype": "int8", "progress": False}
    model = Scores().eval()
    return pillion.compile(model, data[0], **options), pillion.compile(
        model, data[0], stream="x:2", hop=HOP, **options
    )


def quantized(x: Tensor, program: pillion.Program) -> np.ndarray:
    given = program.graph.inputs[0]
    return np.clip(np.round(x.numpy() / given.scale) + given.zero_point, -128, 127).astype(np.int8)


def test_a_state_has_the_bytes_of_whole_windows_once_it_has_seen_full_ones(
    programs: tuple[pillion.Program, pillion.Program],
) -> None:
    whole, stream = programs
    heard = quantized(signal(), stream)
    calls = heard.shape[2] // HOP
    got = stream.stream().run([[heard[:, :, HOP * n : HOP * (n + 1)]] for n in range(calls)])
    wanted = whole.stream().run([[quantized(x, whole)] for x in windows()])
    first = FRAMES // HOP - 1  # the call that fills the first window
    events = 0
    for run, want in enumerate(wanted):
        ours = got[first + run]
        assert np.array_equal(ours[0], want[0])
        if run >= SMOOTHED - 1:
            assert np.array_equal(ours[1], want[1])
        events += int(ours[2].item() > 0)
    assert 1 < events < RUNS / 5, "the detector rests"


def test_all_executors_answer_alike(programs: tuple[pillion.Program, pillion.Program]) -> None:
    stream = programs[1]
    heard = quantized(signal(), stream)
    calls = [[heard[:, :, at : at + HOP]] for at in range(0, heard.shape[2] - 1, HOP)]
    reference, host = (stream.stream(*place).run(calls) for place in ((), ("host",)))
    assert len(reference) == len(calls)
    for a, b in zip(reference, host, strict=True):
        assert all(map(np.array_equal, a, b))
        assert len(a) == len(b)


def test_a_cascade_keeps_the_rows_of_a_network_that_is_skipped() -> None:
    """What the second network needs of later windows is kept though it is not asked for."""
    torch.manual_seed(0)
    layers = [nn.Conv1d(BANDS, 16, 3), nn.ReLU(), nn.Conv1d(16, 24, 3), nn.ReLU(), nn.AdaptiveMaxPool1d(1)]
    second = nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 3))
    first = nn.Sequential(nn.Conv1d(BANDS, 2, 3), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Softmax(1))
    data = [(x,) for x in windows()]
    with torch.no_grad():
        highest = torch.stack([first(x).max() for (x,) in data])
    model = Cascade(first, second, float(highest.median()), torch.zeros(1, 3)).eval()
    program = pillion.compile(
        model, data[0], target="cortex-m55", calibrate=data, io_dtype="int8", stream="inputs_0:2", hop=HOP
    )
    assert any(branches_in(program.lowered.items))
    heard = quantized(signal(), program)
    calls = [[heard[:, :, at : at + HOP]] for at in range(0, heard.shape[2] - 1, HOP)]
    reference, host = program.stream().run(calls), program.stream("host").run(calls)
    answered = [pair for pair in zip(reference, host, strict=True) if pair[0]]
    assert all(np.array_equal(a, b) for pair in answered for a, b in zip(*pair, strict=True))
    skipped = sum((a[1] == a[1][0, 0]).all() for a, _ in answered)
    assert 5 < skipped < len(answered) - 5


class Smoothed(nn.Module):
    """Smooths rows over time with the last window's."""

    def __init__(self, is_kept: bool) -> None:
        super().__init__()
        self.is_kept = is_kept
        self.register_buffer("past", torch.zeros(1, BANDS, FRAMES if is_kept else 1))

    def forward(self, x: Tensor) -> Tensor:
        y = x.relu()
        if not self.is_kept:
            y = y + self.past
        self.past = x.relu() if self.is_kept else y.amax(2, keepdim=True)
        return y.amax(2) + self.past.amax(2)


@pytest.mark.parametrize(
    ("is_kept", "rule"),
    [(False, "rows that are kept do not change"), (True, "a state of the model itself is no row over time")],
)
def test_states_do_not_meet_rows(is_kept: bool, rule: str) -> None:
    x = signal()[:, :, :FRAMES]
    with pytest.raises(PillionError) as caught:
        pillion.compile(
            Smoothed(is_kept).eval(), (x,), target="cortex-m55", calibrate=[(x,)], stream="x:2", hop=HOP
        )
    assert caught.value.rule.startswith(rule)
    assert "state" in caught.value.here


class Levels(nn.Module):
    """Rows that a level follows, which is a state of the model, and a convolution of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.level, self.conv = Pcen(BANDS), nn.Conv1d(BANDS, 4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.level(x)
        return rows, self.conv(rows.transpose(1, 2)).amax(2)


@pytest.mark.parametrize("hop", [1, 3])
def test_a_loop_that_begins_with_a_state_goes_on_with_it(hop: int) -> None:
    count, size = 24, 12
    x = torch.randn(1, count, BANDS, generator=torch.Generator().manual_seed(2)) * 2 - 4
    options = {"target": "cortex-m33", "io_dtype": "int16", "precision": "int16", "progress": False}
    whole = pillion.compile(Levels().eval(), (x,), calibrate=[(x,)], **options)
    parts = [(part,) for part in x.split(size, 1)]
    stream = pillion.compile(Levels().eval(), parts[0], calibrate=parts, stream="x:1", hop=hop, **options)
    assert whole.graph.outputs[0].type.quant == stream.graph.outputs[0].type.quant
    assert stream.graph.states[0].name == "level.past"
    levels = np.rint(x.numpy() / stream.graph.inputs[0].scale).astype(np.int16)
    steps = [[part] for part in np.split(levels, count // hop, 1)]
    wanted = whole.run(levels)[0]
    for place in ("reference", "host"):
        answers = [answer for answer in stream.stream(place).run(steps) if answer]
        found = np.concatenate([rows for rows, _ in answers], 1)
        assert found.shape[1] == count - size + hop
        assert np.array_equal(found, wanted[:, size - hop :]), place
