# SPDX-License-Identifier: Apache-2.0
"""Models of PyTorch and .tflite files as streams, as users compile and run them: every executor gives the whole model's bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import pillion
from fuzz.choices import from_seed
from nightly import part_of
from pillion.compile_options import Stream
from pillion.errors import PillionError
from pillion.ir.stream_io import StreamOutputMeaning
from pillion.ir.verify import verify_graph
from pillion.program import Program
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from streams.signal_length import retimed
from streams.stream_checks import in_reference, require_windows, signals, steps, window
from streams.time_nets import HEADS, drawn, smallest_window

BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


class Spotter(nn.Module):
    """Spectrograms [1, 1, time, bands]: depthwise-separable blocks without padding in time, a mean, a linear layer."""

    def __init__(self, channels: int = 12) -> None:
        super().__init__()
        blocks = []
        for _ in range(2):
            blocks += [nn.Conv2d(channels, channels, 3, padding=(0, 1), groups=channels), nn.ReLU()]
            blocks += [nn.Conv2d(channels, channels, 1), nn.ReLU()]
        self.stem = nn.Conv2d(1, channels, (8, 4), (2, 2), padding=(0, 1))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.blocks(torch.relu(self.stem(x)))
        return torch.softmax(self.head(y.mean((2, 3))), -1)


class Causal(nn.Module):
    """Samples [1, channels, time]: residual blocks of dilated convolutions, padded in front."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(channels, channels, 3, dilation=2**i) for i in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            reach = 2 * layer.dilation[0]
            x = x + torch.relu(layer(functional.pad(x, (reach, 0))))
        return x


def compiled(model: nn.Module, shape: tuple[int, ...], target: str = "cortex-m55", **options: Any) -> Program:
    torch.manual_seed(0)
    return pillion.compile(model.eval(), (torch.randn(shape),), target=target, progress=False, **options)


@pytest.fixture(scope="module")
def spotter() -> dict[str, Program]:
    torch.manual_seed(1)
    model = Spotter()
    shape = (1, 1, 31, 10)
    both = {t: compiled(model, shape, t, stream="x:2", hop=2, io_dtype="int8") for t in BOARDS}
    return {"whole": compiled(model, shape, io_dtype="int8"), **both}


@pytest.mark.turns(3)
def test_streams_on_reference_and_host_equal_the_window(spotter: dict[str, Program]) -> None:
    whole, program = spotter["whole"], spotter["cortex-m55"]
    streaming = program.streaming
    assert streaming is not None
    assert [(fed.name, fed.axis, fed.window, fed.frames) for fed in streaming.inputs] == [("x", 2, 31, 2)]
    assert (streaming.answers[0].first, streaming.meaning) == (16, StreamOutputMeaning.WINDOW)
    held = signals(whole.graph, streaming, 76)
    given = list(steps(whole.graph, streaming, held, 76))
    answers = program.stream().run(given)
    assert require_windows(whole.graph, streaming, answers, held) == 61
    with program.stream("host") as stream:
        assert same(stream.run(given), answers)
        stream.reset()
        assert same([stream.step(*given[0])], answers[:1])
    assert program.memory.state_bytes > 0
    assert program.memory.arena_bytes < whole.memory.arena_bytes / 3
    text = program.explain()
    assert "takes 2 new of 31 frames of x (axis 2) in each run" in text
    assert "from run 16 after a reset on" in text
    assert StreamOutputMeaning.WINDOW.text in text


@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of(BOARDS, 2))
def test_streams_on_boards_equal_the_window(spotter: dict[str, Program], target: str) -> None:
    whole, program = spotter["whole"], spotter[target]
    assert program.streaming is not None
    held = signals(whole.graph, program.streaming, 78)
    answers = program.stream(BOARDS[target]).run(list(steps(whole.graph, program.streaming, held, 78)))
    assert require_windows(whole.graph, program.streaming, answers, held) == 63


def test_float_inputs_in_pytorchs_layout_are_taken_by_frames() -> None:
    """Along the last axis of [batch, channels, time], quantized on the way."""
    torch.manual_seed(2)
    model = Causal()
    whole = compiled(model, (1, 6, 40))
    program = compiled(model, (1, 6, 40), stream="x:2", hop=1)
    streaming = program.streaming
    assert streaming is not None
    assert streaming.meaning is StreamOutputMeaning.BOTH
    assert streaming.answers[0].first == 1
    held = signals(whole.graph, streaming, 70)
    given = list(steps(whole.graph, streaming, held, 70))
    with program.stream("host") as stream:
        answers = stream.run(given)
    assert require_windows(whole.graph, streaming, answers, held) == 31
    rows = np.concatenate([got for (got,) in answers], axis=2)
    assert np.array_equal(rows, retimed(whole.graph, 40, 70).reference(held[0])[0])


class Recurrent(nn.Module):
    """Frames [1, time, channels] through an LSTM or a GRU; an answer for each frame."""

    def __init__(self, kind: type[nn.RNNBase], bidirectional: bool = False) -> None:
        super().__init__()
        self.layer = kind(4, 6, batch_first=True, bidirectional=bidirectional)  # type: ignore[call-arg]
        self.head = nn.Linear(12 if bidirectional else 6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0])


@pytest.mark.turns(2)
@pytest.mark.parametrize(("kind", "hop"), [(nn.LSTM, 1), (nn.GRU, 3)])
def test_recurrent_layers_go_on_where_they_stopped(kind: type[nn.RNNBase], hop: int) -> None:
    torch.manual_seed(3)
    model = Recurrent(kind)
    whole = compiled(model, (1, 18, 4), io_dtype="int8")
    program = compiled(model, (1, 18, 4), stream="x:1", hop=hop, io_dtype="int8")
    streaming = program.streaming
    assert streaming is not None
    assert (streaming.meaning, streaming.answers[0].first) == (StreamOutputMeaning.SIGNAL, 1)
    held = signals(whole.graph, streaming, 18 // hop)
    given = list(steps(whole.graph, streaming, held, 18 // hop))
    with program.stream("host") as stream:
        for _ in range(2):
            rows = np.concatenate([rows for (rows,) in stream.run(given)], axis=1)
            assert np.array_equal(rows, whole.run(held[0])[0])
            stream.reset()


def test_layers_that_begin_at_the_end_are_refused() -> None:
    with pytest.raises(PillionError, match="begins with the last of them") as refusal:
        compiled(Recurrent(nn.GRU, True), (1, 18, 4), stream="x:1")
    assert "bidirectional=False" in refusal.value.help


class Chomped(nn.Module):
    """A temporal network as it is usually written: padding at both ends, what looks ahead cut off again."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(5, 5, 3, dilation=2**i, padding=2 * 2**i, groups=5 if i == 1 else 1) for i in range(3)
        )
        self.head = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(x + torch.relu(layer(x)[:, :, : -layer.padding[0]]))
        return self.head(x[:, :, -1])


def test_padding_that_is_cut_off_again_does_not_look_ahead() -> None:
    torch.manual_seed(5)
    model = Chomped()
    whole = compiled(model, (1, 5, 30), io_dtype="int8")
    assert not any(getattr(op, "padding", (0, 0, 0, 0))[3] for op in whole.graph.ops)
    program = compiled(model, (1, 5, 30), stream="x:2", hop=3, io_dtype="int8")
    assert program.streaming is not None
    assert program.streaming.meaning is StreamOutputMeaning.BOTH
    held = signals(whole.graph, program.streaming, 40)
    given = list(steps(whole.graph, program.streaming, held, 40))
    with program.stream("host") as stream:
        assert require_windows(whole.graph, program.streaming, stream.run(given), held) == 31


class Attended(nn.Module):
    """Each frame asks all others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x


@pytest.mark.parametrize(
    ("model", "shape", "way_out"),
    [
        (Attended(), (1, 9, 4), "attention and weighted sums over time"),
        (nn.Sequential(nn.Conv1d(4, 4, 2), nn.GroupNorm(2, 4), nn.ReLU()), (1, 4, 12), "BatchNorm"),
        (nn.Sequential(nn.Conv1d(4, 4, 2), nn.Softmax(2)), (1, 4, 12), "softmax over channels"),
    ],
)
def test_each_kind_of_layer_has_its_way_out(model: nn.Module, shape: tuple[int, ...], way_out: str) -> None:
    name = "x" if isinstance(model, Attended) else "input_1"
    with pytest.raises(PillionError, match="cannot be streamed") as refusal:
        compiled(model, shape, stream={name: 1 if name == "x" else 2})
    assert way_out in refusal.value.help


def test_streams_of_tflite_files_equal_litert(tmp_path: Path) -> None:
    torch.manual_seed(1)
    compiled(Spotter(), (1, 1, 31, 10), io_dtype="int8").save(tmp_path / "whole.tflite")
    whole = pillion.compile(tmp_path / "whole.tflite", target="cortex-m33")
    name = whole.graph.inputs[0].name
    program = pillion.compile(tmp_path / "whole.tflite", target="cortex-m33", stream={name: 2}, hop=2)
    streaming = program.streaming
    assert streaming is not None
    held = signals(whole.graph, streaming, 30)
    with program.stream("host") as stream:
        answers = stream.run(list(steps(whole.graph, streaming, held, 30)))
    assert require_windows(whole.graph, streaming, answers, held) == 15
    for run in (16, 23, 30):
        seen = window(whole.graph, streaming, held, run)
        assert seen is not None
        assert same([whole.run(*seen, on="litert")], [answers[run - 1]])


def test_states_go_in_and_out_of_files(tmp_path: Path) -> None:
    """Runtimes that remember nothing are handed the rows."""
    torch.manual_seed(1)
    program = compiled(Spotter(), (1, 1, 31, 10), stream="x:2", hop=2, state="io", io_dtype="int8")
    assert not program.graph.states
    assert len(program.graph.inputs) == len(program.graph.outputs) == 5
    program.save(tmp_path / "hop.pte")


@pytest.mark.parametrize("target", BOARDS)
@pytest.mark.parametrize("seed", range(2))
def test_random_nets_as_c(seed: int, target: str) -> None:
    require_c(seed, target, "host")


@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of(BOARDS, 2))
@pytest.mark.parametrize("seed", [12])
@pytest.mark.nightly
def test_random_nets_on_boards(seed: int, target: str) -> None:
    require_c(seed, target, BOARDS[target])


def require_c(seed: int, target: str, on: str) -> None:
    choices = from_seed(seed)
    net = drawn(choices, causal=bool(seed % 2), head=HEADS[seed % len(HEADS)])
    frames = smallest_window(net, 36)
    assert frames is not None
    whole = verify_graph(net.graph(frames))
    graph = to_stream_graph(whole, Stream((("x", net.axis),), choices.pick((1, 2))))
    assert graph.streaming is not None
    held = signals(whole, graph.streaming, 60, seed)
    given = list(steps(whole, graph.streaming, held, 60))
    program = Program(graph.replace(streaming=None), find_target(target))  # answers without meaning, too
    with program.stream(on) as stream:
        assert same(stream.run(given), in_reference(graph, iter(given)))


def test_streams_refuse_symmetric_padding() -> None:
    model = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.ReLU())
    with pytest.raises(PillionError, match="there is nothing behind the last frame") as refusal:
        compiled(model, (1, 4, 20), stream="input_1:2")
    assert "causal" in refusal.value.help


def same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    )
