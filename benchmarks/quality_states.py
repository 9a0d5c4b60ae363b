# SPDX-License-Identifier: Apache-2.0
"""Small models that remember, each a function from an input and the states to an output and the next states, for
benchmarks/quality.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS, END = 240, 24
"""Steps of each signal, and how many of them are its end."""
CALIBRATING, JUDGING = 3, 3
"""Signals that calibrate, one after the other, and signals that judge, each from the first states on."""
UNITS, FEATURES = 32, 16
Step = Callable[..., tuple[Tensor, ...]]


def integrator(m: nn.Module, x: Tensor, p: Tensor) -> tuple[Tensor, ...]:
    """Adds a hundredth of a velocity to a position."""
    p = p + x * 0.01
    return p, p


def running_mean(m: nn.Module, x: Tensor, mean: Tensor) -> tuple[Tensor, ...]:
    """Subtracts an exponential average."""
    mean = mean * 0.99 + x * 0.01
    return x - mean, mean


def turned(q: Tensor, rate: Tensor) -> Tensor:
    """Returns a quaternion after a hundredth of a second at a rate of rotation."""
    a, b, c, d = q.unbind(-1)
    x, y, z = rate.unbind(-1)
    change = [-b * x - c * y - d * z, a * x + c * z - d * y, a * y - b * z + d * x, a * z + b * y - c * x]
    return q + torch.stack(change, -1) * 0.005


def gyroscope(m: nn.Module, x: Tensor, q: Tensor) -> tuple[Tensor, ...]:
    """Turns an attitude by rates of rotation."""
    q = F.normalize(turned(q, x), dim=-1)
    return q, q


def madgwick(m: nn.Module, x: Tensor, q: Tensor) -> tuple[Tensor, ...]:
    """Turns an attitude by rates of rotation, the first three inputs, and towards gravity, the last three."""
    gx, gy, gz = F.normalize(x[:, 3:], dim=-1).unbind(-1)
    a, b, c, d = q.unbind(-1)
    ex, ey, ez = 2 * (b * d - a * c) - gx, 2 * (a * b + c * d) - gy, 1 - 2 * (b * b + c * c) - gz
    slope = [b * ey - c * ex, d * ex + a * ey - 2 * b * ez, d * ey - a * ex - 2 * c * ez, b * ex + c * ey]
    q = F.normalize(turned(q, x[:, :3]) - 0.05 * torch.stack(slope, -1), dim=-1)
    return q, q


def kalman(m: Any, x: Tensor, position: Tensor, velocity: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """Follows noisy positions with gains that a recurrent layer computes."""
    position = position + velocity * 0.1
    innovation = x - position
    h = torch.tanh(m.reads(torch.cat([innovation, velocity], 1)) + m.keeps(h))
    corrections = torch.sigmoid(m.gain(h)) * innovation * 0.5
    position, velocity = position + corrections[:, :1], velocity + corrections[:, 1:]
    return position, position, velocity, h


def lstm(m: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """An LSTM whose forget gate is biased towards keeping; of images, if its layer is a convolution."""
    read, keep, new, shown = m.gates(torch.cat([x, h], 1)).chunk(4, 1)
    c = torch.sigmoid(keep + 2) * c + torch.sigmoid(read) * torch.tanh(new)
    h = torch.sigmoid(shown) * torch.tanh(c)
    return h, h, c


def gru(m: Any, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """A GRU whose update gate is biased towards keeping."""
    reset, keep = torch.sigmoid(m.gates(torch.cat([x, h], 1)) + 1).chunk(2, 1)
    h = keep * h + (1 - keep) * torch.tanh(m.new(torch.cat([x, reset * h], 1)))
    return h, h


def state_space(m: Any, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """A diagonal state space, whose units decay by 0.995 to 0.8 per step."""
    decay = 1 - torch.logspace(-2.3, -0.7, UNITS)
    h = decay * h + (1 - decay) * m.reads(x)
    return m.shows(h) + x, h


def stream(m: Any, x: Tensor, frames: Tensor, features: Tensor, mean: Tensor) -> tuple[Tensor, ...]:
    """Two causal convolutions that keep their last frames, and a mean over all frames."""
    frames = torch.cat([frames, x[:, :, None]], 2)
    features = torch.cat([features, torch.relu(m.one(frames))], 2)
    mean = mean + (torch.relu(m.two(features)).squeeze(2) - mean) * 0.05
    return m.head(mean), frames[:, :, 1:], features[:, :, 1:], mean


@dataclass(frozen=True)
class Stateful:
    """A model that remembers: its step, the shapes of its input and states, and its layers."""

    step: Step
    shape: tuple[int, ...]
    states: tuple[tuple[int, ...], ...]
    layers: dict[str, Callable[[], nn.Module]] = field(default_factory=dict)


def _linear(*sizes: int) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(*sizes)


MODELS = {
    "integrator": Stateful(integrator, (1, 3), ((1, 3),)),
    "running mean": Stateful(running_mean, (1, 3), ((1, 3),)),
    "gyroscope": Stateful(gyroscope, (1, 3), ((1, 4),)),
    "Madgwick filter": Stateful(madgwick, (1, 6), ((1, 4),)),
    "Kalman filter": Stateful(
        kalman,
        (1, 1),
        ((1, 1), (1, 1), (1, UNITS)),
        {"reads": _linear(2, UNITS), "keeps": _linear(UNITS, UNITS), "gain": _linear(UNITS, 2)},
    ),
    "lstm cell": Stateful(
        lstm, (1, FEATURES), ((1, UNITS),) * 2, {"gates": _linear(FEATURES + UNITS, 4 * UNITS)}
    ),
    "gru cell": Stateful(
        gru,
        (1, FEATURES),
        ((1, UNITS),),
        {"gates": _linear(FEATURES + UNITS, 2 * UNITS), "new": _linear(FEATURES + UNITS, UNITS)},
    ),
    "state space": Stateful(
        state_space,
        (1, FEATURES),
        ((1, UNITS),),
        {"reads": _linear(FEATURES, UNITS), "shows": _linear(UNITS, FEATURES)},
    ),
    "ConvLSTM": Stateful(
        lstm, (1, 2, 8, 8), ((1, 8, 8, 8),) * 2, {"gates": lambda: nn.Conv2d(10, 32, 3, padding=1)}
    ),
    "streaming convolutions": Stateful(
        stream,
        (1, FEATURES),
        ((1, FEATURES, 4), (1, UNITS, 4), (1, UNITS)),
        {
            "one": lambda: nn.Conv1d(FEATURES, UNITS, 5),
            "two": lambda: nn.Conv1d(UNITS, UNITS, 5),
            "head": _linear(UNITS, 8),
        },
    ),
}
STATEFUL = {f"{name}, {STEPS} steps": model for name, model in MODELS.items()}


class Cell(nn.Module):
    """A stateful model that takes and returns its states; its weights are drawn at random."""

    def __init__(self, model: Stateful) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.step = model.step
        for name, layer in model.layers.items():
            self.add_module(name, layer())
        self.first = tuple(torch.zeros(shape) for shape in model.states)
        if model.step in (gyroscope, madgwick):
            self.first[0][:, 0] = 1.0

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """Returns the output and the next states."""
        return self.step(self, x, *states)


class Buffered(nn.Module):
    """A cell that keeps its states in buffers."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = copy.deepcopy(cell)
        for number, first in enumerate(cell.first):
            self.register_buffer(f"state{number}", first.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output and writes the states."""
        states = [self.get_buffer(f"state{number}") for number in range(len(self.cell.first))]
        shown, *after = self.cell(x, *states)
        for state, new in zip(states, after, strict=True):
            state.copy_(new)
        return shown


def signal(shape: Sequence[int], seed: int) -> list[Tensor]:
    """Returns an input per step: noise that neighbours in time share, within 1 of a mean that is not zero. Of six
    numbers, the last three are a direction that is nearly upwards."""
    noise = torch.randn(STEPS, *shape, generator=torch.Generator().manual_seed(seed))
    values = ((noise + noise.roll(1, 0) + noise.roll(2, 0)) / 3.4).clamp(-1, 1)
    values += torch.tensor([0.5, -0.3, 0.2]).repeat(2)[: shape[-1]] if shape[-1] in (3, 6) else 0.2
    if shape[-1] == 6:
        values[..., 3:] = values[..., 3:] * 0.1 + torch.tensor([0.0, 0.0, 1.0])
    return list(values)


def run_steps(cell: Step, first: tuple[Tensor, ...], xs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Returns input, states before, and output of each step."""
    states, steps = first, []
    for x in xs:
        shown, *after = cell(x, *states)
        steps.append((x, *states, shown))
        states = tuple(after)
    return steps
