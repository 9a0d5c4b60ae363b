# SPDX-License-Identifier: Apache-2.0
"""Networks with states, run for 240 steps, for benchmarks/quality.py: filters, recurrent cells written by hand, and a streaming network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS, END = 240, 24
"""Steps of each signal, and how many of them are its end."""
JUDGED = 3
"""Signals that judge; another one calibrates."""
UNITS, FEATURES = 32, 16
States = tuple[Tensor, ...]
Step = Callable[..., tuple[Tensor, ...]]


class Cell(nn.Module):
    """Gives an output and the next states for an input and the states."""

    first: States

    def __init__(self, *first: Tensor) -> None:
        super().__init__()
        self.first = first


class Buffered(nn.Module):
    """A cell that keeps its states in buffers, as a stream needs it."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = copy.deepcopy(cell)
        self.names = [f"state{number}" for number in range(len(cell.first))]
        for name, first in zip(self.names, cell.first, strict=True):
            self.register_buffer(name, first.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Gives the output, and writes the states."""
        states = [self.get_buffer(name) for name in self.names]
        shown, *after = self.cell(x, *states)
        for state, new in zip(states, after, strict=True):
            state.copy_(new)
        return shown


def turned(q: Tensor, rate: Tensor, step: float) -> Tensor:
    """Gives a quaternion after one step at a rate of rotation."""
    a, b, c, d = q.unbind(-1)
    x, y, z = rate.unbind(-1)
    change = [-b * x - c * y - d * z, a * x + c * z - d * y, a * y - b * z + d * x, a * z + b * y - c * x]
    return q + torch.stack(change, -1) * (0.5 * step)


class Integrator(Cell):
    """A position that follows a velocity."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, 3))

    def forward(self, x: Tensor, p: Tensor) -> States:
        """Adds a hundredth of the velocity."""
        p = p + x * 0.01
        return p, p


class SlowMean(Cell):
    """A signal without its running mean."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, 3))

    def forward(self, x: Tensor, mean: Tensor) -> States:
        """Moves the mean by a hundredth of the difference."""
        mean = mean * 0.99 + x * 0.01
        return x - mean, mean


class Gyroscope(Cell):
    """An attitude from rates of rotation."""

    def __init__(self) -> None:
        super().__init__(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))

    def forward(self, x: Tensor, q: Tensor) -> States:
        """Turns the quaternion and normalizes it."""
        q = F.normalize(turned(q, x, 0.01), dim=-1)
        return q, q


class Madgwick(Cell):
    """An attitude from rates of rotation (the first three numbers) and the direction of gravity (the others)."""

    def __init__(self) -> None:
        super().__init__(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))

    def forward(self, x: Tensor, q: Tensor) -> States:
        """Turns the quaternion, descends along the error of gravity, and normalizes it."""
        gravity = F.normalize(x[:, 3:], dim=-1)
        a, b, c, d = q.unbind(-1)
        gx, gy, gz = gravity.unbind(-1)
        ex = 2 * (b * d - a * c) - gx
        ey = 2 * (a * b + c * d) - gy
        ez = 1 - 2 * (b * b + c * c) - gz
        slope = [b * ey - c * ex, d * ex + a * ey - 2 * b * ez, d * ey - a * ex - 2 * c * ez, b * ex + c * ey]
        q = F.normalize(turned(q, x[:, :3], 0.01) - 0.05 * torch.stack(slope, -1), dim=-1)
        return q, q


class LearnedKalman(Cell):
    """Position and velocity from noisy positions, with a gain that a small recurrent network computes."""

    def __init__(self, *first: Tensor) -> None:
        super().__init__(*(first or (torch.zeros(1, 1), torch.zeros(1, 1))), torch.zeros(1, UNITS))
        self.reads, self.keeps, self.gain = nn.Linear(2, UNITS), nn.Linear(UNITS, UNITS), nn.Linear(UNITS, 2)

    def gains(self, innovation: Tensor, velocity: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Gives both gains, and the next state of the network."""
        h = torch.tanh(self.reads(torch.cat([innovation, velocity], 1)) + self.keeps(h))
        return torch.sigmoid(self.gain(h)), h

    def forward(self, x: Tensor, position: Tensor, velocity: Tensor, h: Tensor) -> States:
        """Predicts, and corrects by the gain times the innovation."""
        position = position + velocity * 0.1
        innovation = x - position
        gain, h = self.gains(innovation, velocity, h)
        corrections = gain * innovation
        position = position + corrections[:, :1] * 0.5
        velocity = velocity + corrections[:, 1:] * 0.5
        return position, position, velocity, h


class JoinedKalman(LearnedKalman):
    """The same with position and velocity in one state, which a join of its parts predicts."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, 2))

    def predicted(self, estimate: Tensor) -> Tensor:
        """Moves the position by the velocity, in a tenth of a second."""
        position, velocity = estimate.split(1, 1)
        return torch.cat([position + velocity * 0.1, velocity], 1)

    def forward(self, x: Tensor, estimate: Tensor, h: Tensor) -> States:  # type: ignore[override]  # one state less
        """Predicts, and corrects by the gain times the innovation."""
        predicted = self.predicted(estimate)
        innovation = x - predicted[:, :1]
        gain, h = self.gains(innovation, predicted[:, 1:], h)
        estimate = predicted + gain * 0.5 * innovation
        return estimate, estimate, h


class KalmanMatrix(JoinedKalman):
    """The same with a matrix that predicts."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("model", torch.tensor([[1.0, 0.1], [0.0, 1.0]]))

    def predicted(self, estimate: Tensor) -> Tensor:
        """Multiplies the estimate by the matrix."""
        return F.linear(estimate, self.model)


class Lstm(Cell):
    """An LSTM in formulas, whose forget gate is biased towards keeping."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, UNITS), torch.zeros(1, UNITS))
        self.x, self.h = nn.Linear(FEATURES, 4 * UNITS), nn.Linear(UNITS, 4 * UNITS)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> States:
        """Gives the hidden state."""
        read, keep, new, shown = (self.x(x) + self.h(h)).chunk(4, 1)
        c = torch.sigmoid(keep + 2) * c + torch.sigmoid(read) * torch.tanh(new)
        h = torch.sigmoid(shown) * torch.tanh(c)
        return h, h, c


class Gru(Cell):
    """A GRU in formulas, whose update gate is biased towards keeping."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, UNITS))
        self.gates, self.new = nn.Linear(FEATURES + UNITS, 2 * UNITS), nn.Linear(FEATURES + UNITS, UNITS)

    def forward(self, x: Tensor, h: Tensor) -> States:
        """Gives the hidden state."""
        reset, keep = torch.sigmoid(self.gates(torch.cat([x, h], 1)) + 1).chunk(2, 1)
        new = torch.tanh(self.new(torch.cat([x, reset * h], 1)))
        h = keep * h + (1 - keep) * new
        return h, h


class StateSpace(Cell):
    """A diagonal state space: each unit decays at a rate of its own, between 0.8 and 0.995 in a step."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, UNITS))
        self.reads, self.shows = nn.Linear(FEATURES, UNITS), nn.Linear(UNITS, FEATURES)
        self.register_buffer("decay", 1 - torch.logspace(-2.3, -0.7, UNITS))

    def forward(self, x: Tensor, h: Tensor) -> States:
        """Gives a linear function of the state, and the input."""
        h = self.decay * h + (1 - self.decay) * self.reads(x)
        return self.shows(h) + x, h


class ConvLstm(Cell):
    """An LSTM of images, whose products are convolutions."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, 8, 8, 8), torch.zeros(1, 8, 8, 8))
        self.conv = nn.Conv2d(2 + 8, 32, 3, padding=1)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> States:
        """Gives the hidden state."""
        read, keep, new, shown = self.conv(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(keep + 1) * c + torch.sigmoid(read) * torch.tanh(new)
        h = torch.sigmoid(shown) * torch.tanh(c)
        return h, h, c


class Streaming(Cell):
    """Two causal convolutions that keep their last frames, and a mean of features over all frames."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, FEATURES, 4), torch.zeros(1, UNITS, 4), torch.zeros(1, UNITS))
        self.one, self.two = nn.Conv1d(FEATURES, UNITS, 5), nn.Conv1d(UNITS, UNITS, 5)
        self.head = nn.Linear(UNITS, 8)

    def forward(self, x: Tensor, frames: Tensor, features: Tensor, mean: Tensor) -> States:
        """Gives eight scores for each frame."""
        frames = torch.cat([frames, x[:, :, None]], 2)
        features = torch.cat([features, torch.relu(self.one(frames))], 2)
        mean = mean + (torch.relu(self.two(features)).squeeze(2) - mean) * 0.05
        return self.head(mean), frames[:, :, 1:], features[:, :, 1:], mean


CELLS: dict[str, tuple[type[Cell], tuple[int, ...]]] = {
    "integrator": (Integrator, (1, 3)),
    "running mean": (SlowMean, (1, 3)),
    "gyroscope": (Gyroscope, (1, 3)),
    "Madgwick filter": (Madgwick, (1, 6)),
    "learned Kalman filter": (LearnedKalman, (1, 1)),
    "Kalman filter, one state": (JoinedKalman, (1, 1)),
    "Kalman filter, matrix": (KalmanMatrix, (1, 1)),
    "lstm cell": (Lstm, (1, FEATURES)),
    "gru cell": (Gru, (1, FEATURES)),
    "state space": (StateSpace, (1, FEATURES)),
    "ConvLSTM": (ConvLstm, (1, 2, 8, 8)),
    "streaming convolutions": (Streaming, (1, FEATURES)),
}
STATEFUL = {f"{name}, {STEPS} steps": name for name in CELLS}


def stateful_network(name: str) -> tuple[Cell, tuple[int, ...]]:
    """Gives a cell with weights drawn at random, and the shape of its input."""
    torch.manual_seed(0)
    cell, shape = CELLS[STATEFUL[name]]
    return cell().eval(), shape


def signal(shape: Sequence[int], seed: int) -> list[Tensor]:
    """Gives an input for each step: noise that neighbours in time share, around a mean that is not zero, from a sensor whose range is
    1 on both sides of that. Of six numbers, the last three are a direction that is nearly upwards."""
    made = torch.Generator().manual_seed(seed)
    noise = torch.randn(STEPS, *shape, generator=made)
    found = (noise + noise.roll(1, 0) + noise.roll(2, 0)) / 1.7 * 0.5
    found = found.clamp(-1, 1)
    found += torch.tensor([0.5, -0.3, 0.2]).repeat(2)[: shape[-1]] if shape[-1] in (3, 6) else 0.2
    if shape[-1] == 6:
        found[..., 3:] = found[..., 3:] * 0.1 + torch.tensor([0.0, 0.0, 1.0])
    return list(found)


def run_cell(cell: Step, first: States, xs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Gives the outputs of all steps of a cell that reads and returns its states."""
    states, found = first, []
    for x in xs:
        shown, *after = cell(x, *states)
        states = tuple(after)
        found.append((shown,))
    return found


def step_inputs(cell: Cell, xs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Gives what a cell in float reads in each step: an input and the states."""
    states, found = cell.first, []
    for x in xs:
        found.append((x, *states))
        states = tuple(cell(x, *states)[1:])
    return found
