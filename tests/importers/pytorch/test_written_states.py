# SPDX-License-Identifier: Apache-2.0
"""Buffers that change by small steps keep up with their module over 200 runs: they have 16 bits, or a warning says what is lost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionWarning

pytestmark = pytest.mark.torch
STEPS = 200
Step = Callable[[Tensor, Tensor], Tensor]


class Written(nn.Module):
    """A state that is a function of itself and the input, and the answer."""

    def __init__(self, first: Tensor, step: Step) -> None:
        super().__init__()
        self.register_buffer("state", first)
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        new = self.step(self.state, x)
        self.state.copy_(new)
        return new


def turned(q: Tensor, w: Tensor) -> Tensor:
    """A quaternion that turns at the rate of a gyroscope."""
    a, b, c, d = q.unbind(-1)
    x, y, z = w.unbind(-1)
    rate = [-b * x - c * y - d * z, a * x + c * z - d * y, a * y - b * z + d * x, a * z + b * y - c * x]
    return q + torch.stack(rate, -1) * 0.005


def over_its_length(q: Tensor, w: Tensor) -> Tensor:
    new = turned(q, w)
    return new / new.norm()


ORIGIN, UNIT = torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0, 0.0]])
NETS: dict[str, tuple[Tensor, Step, float]] = {
    "position": (ORIGIN, lambda p, v: p + v * 0.01, 50),
    "slow_mean": (ORIGIN, lambda m, x: m * 0.99 + x * 0.01, 50),
    "quaternion": (UNIT, turned, 50),
    "of_length_one": (UNIT, lambda q, w: nn.functional.normalize(turned(q, w), dim=-1), 60),
    "over_its_length": (UNIT, over_its_length, 60),
}
"""What a state is at first, how it goes on, and how near it stays. Measured in 8 bits: 10.1, 32.8, 21.9, 28.3 and 22.5 dB; in 16: 65.6, 63.4,
70.3, 67.5 and 67.5."""


def samples() -> list[Tensor]:
    made = torch.Generator().manual_seed(1)
    return [torch.randn(1, 3, generator=made) * 0.3 + torch.tensor([[0.5, -0.3, 0.2]]) for _ in range(STEPS)]


def compiled(name: str, target: str = "cortex-m55") -> tuple[nn.Module, pillion.Program]:
    first, step, _ = NETS[name]
    net, xs = Written(first.clone(), step).eval(), samples()
    return net, pillion.compile(net, xs[0], target=target, calibrate=xs, progress=False)


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", NETS)
def test_states_that_change_by_small_steps_keep_up_for_200_runs(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PillionWarning)
        net, program = compiled(name)
    assert [state.before.dtype.value for state in program.graph.states] == ["int16"]
    here, there = program.stream("reference"), program.stream("host")
    signal = noise = 0.0
    for x in samples():
        with torch.no_grad():
            wanted = net(x).double().numpy()
        found = here.step(x)[0]
        assert found.tobytes() == there.step(x)[0].tobytes()
        signal, noise = signal + np.square(wanted).sum(), noise + np.square(wanted - found).sum()
    assert 10 * math.log10(signal / noise) >= NETS[name][2]


@pytest.mark.turns(5)
def test_other_runtimes_have_norms_of_8_bits() -> None:
    _, program = compiled("of_length_one")
    for form in (program.tflite, program.pte):
        with pytest.warns(PillionWarning, match="8 bits"):
            assert form()


class Recurrent(nn.Module):
    """A cell of torch that keeps its states in buffers, one step for each run; `remembers` is the bias of its second gate."""

    def __init__(self, cell: type[nn.GRUCell | nn.LSTMCell], remembers: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = cell(3, 16)
        self.register_buffer("h", torch.zeros(1, 16))
        self.register_buffer("c", torch.zeros(1, 16))
        with torch.no_grad():
            self.cell.bias_ih[16:32] += remembers

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.cell, nn.GRUCell):
            h = self.cell(x, self.h)
        else:
            h, c = self.cell(x, (self.h, self.c))
            self.c.copy_(c)
        self.h.copy_(h)
        return h


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("cell", "remembers", "least"), [(nn.GRUCell, 0, 33), (nn.GRUCell, 2, 42), (nn.LSTMCell, 2, 42)]
)
def test_recurrent_cells_stay_near_float_for_200_runs(
    cell: type[nn.GRUCell | nn.LSTMCell], remembers: float, least: float
) -> None:
    """Measured: 34.9, 46.3 and 44.9 dB."""
    net, made = Recurrent(cell, remembers).eval(), torch.Generator().manual_seed(1)
    xs = [torch.randn(1, 3, generator=made) for _ in range(STEPS)]
    stream = pillion.compile(net, xs[0], target="cortex-m55", calibrate=xs, progress=False).stream(
        "reference"
    )
    with torch.no_grad():
        wanted = np.stack([net(x).double().numpy() for x in xs])
    found = np.stack([stream.step(x)[0] for x in xs])
    assert 10 * math.log10(np.square(wanted).sum() / np.square(wanted - found).sum()) >= least


def test_files_of_other_runtimes_have_8_bits_and_say_so() -> None:
    program = compiled("position")[1]
    with pytest.warns(PillionWarning, match="states between runs"):
        assert program.pte()


@pytest.mark.turns(19)
def test_states_without_int16_warn_of_the_loss() -> None:
    """On chips with an NPU, and where an op between has none."""
    with pytest.warns(
        PillionWarning, match=r"`state` changes by 0.00\d+ from run to run, 0.\d+ of the steps"
    ):
        program = compiled("position", "imxrt700")[1]
    assert [state.before.dtype.value for state in program.graph.states] == ["int8"]
    net = Written(UNIT.clone(), lambda q, w: turned(q, w) / turned(q, w).abs().amax())
    with pytest.warns(PillionWarning, match="`state` changes by"):
        pillion.compile(net.eval(), samples()[0], target="cortex-m55", calibrate=samples(), progress=False)


def test_states_of_8_bits_keep_their_integers() -> None:
    """What is read and what is left have one range, though calibration saw other ends of both."""
    net = Written(ORIGIN.clone(), lambda p, v: torch.tanh(v - 0.5 * p))
    program = pillion.compile(
        net.eval(), samples()[0], target="cortex-m55", calibrate=samples(), progress=False
    )
    assert [state.before.dtype.value for state in program.graph.states] == ["int8"]
