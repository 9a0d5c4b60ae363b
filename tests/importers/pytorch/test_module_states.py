# SPDX-License-Identifier: Apache-2.0
"""Modules that write to their buffers: programs with states, which follow the module over a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError, PillionWarning
from stateful_graphs import same

STEPS = 40


class Window(nn.Module):
    """A convolution over the last three frames."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(5, 12, 3), nn.Linear(12, 5)
        self.register_buffer("past", torch.zeros(1, 5, 2))

    def forward(self, frame: Tensor) -> Tensor:
        window = torch.cat([self.past, frame], 2)
        self.past.copy_(window[:, :, 1:])
        return self.out(torch.relu(self.conv(window))[:, :, 0])


class Assigned(Window):
    """The same with another tensor in the buffer's place, which begins as something else than zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.past.copy_(torch.linspace(-1, 1, 10).reshape(1, 5, 2))

    def forward(self, frame: Tensor) -> Tensor:
        window = torch.cat([self.past, frame], 2)
        self.past = window[:, :, 1:]
        return self.out(torch.relu(self.conv(window))[:, :, 0])


class Mean(nn.Module):
    """A running mean that is taken off."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(7, 6)
        self.register_buffer("mean", torch.zeros(1, 7))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.75).add_(0.25 * x)
        return torch.relu(self.inner(x - self.mean))


class Image(nn.Module):
    """What changed since the last image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 4, 3)
        self.register_buffer("last", torch.zeros(1, 3, 7, 5))

    def forward(self, image: Tensor) -> Tensor:
        both = torch.cat([image, self.last], 1)
        self.last[:] = image
        return self.conv(both)


NETS = {
    "window": (Window, (1, 5, 1)),
    "assigned": (Assigned, (1, 5, 1)),
    "mean": (Mean, (1, 7)),
    "image": (Image, (1, 3, 7, 5)),
}


def data(shape: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator) for _ in range(STEPS)]


@pytest.mark.turns(6)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", NETS)
def test_a_program_follows_its_module(name: str, layout: str) -> None:
    torch.manual_seed(0)
    cls, shape = NETS[name]
    net, xs = cls().eval(), data(shape)
    first = {k: v.clone() for k, v in net.named_buffers()}
    program = pillion.compile(net, xs[0], target="cortex-m33", calibrate=[(x,) for x in xs], io_layout=layout)  # type: ignore[arg-type]  # one of both
    assert all(torch.equal(v, first[k]) for k, v in net.named_buffers()), "the module is as it was"
    assert [state.name for state in program.graph.states] == list(first)
    assert len(program.graph.inputs) == len(program.graph.outputs) == 1
    as_it_lies = [x.permute(0, 2, 3, 1) if layout == "nhwc" and x.ndim == 4 else x for x in xs]
    steps = [[x.contiguous().numpy()] for x in as_it_lies]
    made = program.stream().run(steps)
    assert same(program.stream("host").run(steps), made)
    signal = noise = 0.0
    with torch.no_grad():
        for x, (ours,) in zip(xs, made, strict=True):
            theirs = net(x).numpy()
            theirs = theirs.transpose(0, 2, 3, 1) if ours.shape != theirs.shape else theirs
            signal, noise = signal + float((theirs**2).sum()), noise + float(((theirs - ours) ** 2).sum())
    assert 10 * np.log10(signal / noise) > 28


def test_windows_stay_in_integers() -> None:
    program = pillion.compile(
        Window().eval(), data((1, 5, 1))[0], target="cortex-m33", calibrate=[(x,) for x in data((1, 5, 1))]
    )
    (state,) = program.graph.states
    assert state.before.dtype.value == "int8"
    assert program.memory.state_bytes == 16
    assert program.graph.inputs[0].name == "frame"


FILE = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.register_buffer("past", torch.zeros(1, 4))
    def forward(self, x):
        y = self.out(x + self.past)
        self.past.copy_(x)
        return y
def example_inputs():
    return (torch.ones(1, 4),)
"""


def test_a_file_may_name_such_a_module(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE, "utf-8")
    with pytest.warns(PillionWarning, match="nothing but zeros in input `past`"):
        program = pillion.compile(f"{tmp_path}/net.py:Net", target="cortex-m33")
    assert [state.name for state in program.graph.states] == ["past"]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.out(x)


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.register_buffer("past", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.past = torch.cat([self.past, x])
        return self.out(x)


@pytest.mark.parametrize(
    ("net", "words"), [(Counter(), "count: torch.int64"), (Growing(), r"past: torch.float32\[2, 4\]")]
)
def test_buffers_that_cannot_be_states_are_named(net: nn.Module, words: str) -> None:
    with pytest.raises(PillionError, match=words):
        pillion.compile(net.eval(), torch.ones(1, 4), target="cortex-m33")


def test_buffers_written_in_training_are_no_states() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())
    program = pillion.compile(
        net, torch.ones(1, 4), target="cortex-m33", calibrate=[(x,) for x in torch.randn(8, 1, 4)]
    )
    assert not program.graph.states
    assert net.training
    window = Window()
    assert pillion.compile(
        window, torch.ones(1, 5, 1), target="cortex-m33", calibrate=[(torch.randn(1, 5, 1),)]
    ).graph.states
    assert window.training
