# SPDX-License-Identifier: Apache-2.0
"""Nets with loops over time as users write them, around cells of torch and of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Lifted(nn.Module):
    """A forward that is a function of the module and its inputs."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        self.call = forward

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(self.parts, *inputs)


class MinGru(nn.Module):
    """Gates that see the input alone."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.z, self.h = nn.Linear(inputs, units), nn.Linear(inputs, units)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        z = torch.sigmoid(self.z(x))
        return (1 - z) * h + z * self.h(x)


class Liquid(nn.Module):
    """A closed-form continuous-time cell."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.body = nn.Linear(inputs + units, 16)
        self.one, self.two, self.a, self.b = (nn.Linear(16, units) for _ in range(4))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        y = 1.7159 * torch.tanh(0.666 * self.body(torch.cat([x, h], 1)))
        gate = torch.sigmoid(self.a(y) + self.b(y))
        return torch.tanh(self.one(y)) * (1 - gate) + gate * torch.tanh(self.two(y))


class FastGrnn(nn.Module):
    """Two gates of one product, with two scalars that are learned."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.w, self.u = nn.Linear(inputs, units, bias=False), nn.Linear(units, units, bias=False)
        self.bz, self.bh = nn.Parameter(torch.ones(units)), nn.Parameter(torch.ones(units))
        self.zeta, self.nu = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(-4.0))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        both = self.w(x) + self.u(h)
        z, new = torch.sigmoid(both + self.bz), torch.tanh(both + self.bh)
        return z * h + (torch.sigmoid(self.zeta) * (1 - z) + torch.sigmoid(self.nu)) * new


class ConvLstm(nn.Module):
    """An LSTM whose products are convolutions."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs + units, 4 * units, 3, padding=1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, o, g = self.conv(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def each(cell: Any, x: Tensor, h: Any, steps: Any = None) -> list[Tensor]:
    """The states after all steps."""
    outs = []
    for t in steps or range(x.shape[1]):
        h = cell(x[:, t], h)
        outs.append(h)
    return outs


def zeros(x: Tensor, *shape: int) -> Tensor:
    return x.new_zeros(x.shape[0], *shape)


def of_cell(cell: nn.Module) -> nn.Module:
    """All states of a cell, and a layer on the last one."""
    return Lifted(
        lambda parts, x: (
            torch.stack(outs := each(parts["cell"], x, zeros(x, 6)), 1),
            parts["out"](outs[-1]),
        ),
        cell=cell,
        out=nn.Linear(6, 3),
    )


def _lstm(parts: Any, x: Tensor) -> Any:
    h, c, outs = zeros(x, 6), zeros(x, 6), []
    for part in x.unbind(1):
        h, c = parts["cell"](part, (h, c))
        outs.append(parts["out"](h))
    return torch.stack(outs), c


def _conv(parts: Any, x: Tensor) -> Any:
    state = (zeros(x, 3, *x.shape[3:]), zeros(x, 3, *x.shape[3:]))
    outs = []
    for t in range(x.size(1)):
        state = parts["cell"](x[:, t], state)
        outs.append(state[0])
    return torch.stack(outs, 1)


def _both_ways(parts: Any, x: Tensor) -> Tensor:
    there = each(parts["cell"], x, zeros(x, 6))
    back = each(parts["two"], x.flip(1), zeros(x, 6))[::-1]
    return torch.cat([torch.stack(there, 1), torch.stack(back, 1)], -1)


def _from_the_end(parts: Any, x: Tensor) -> Tensor:
    h, outs = zeros(x, 6), []
    for t in reversed(range(x.shape[1])):
        h = parts["cell"](x[:, t], h)
        outs.insert(0, h)
    return torch.stack(outs, 1)


def _first_step(parts: Any, x: Tensor) -> Tensor:
    h = torch.tanh(parts["first"](x[:, 0]))
    return torch.stack([h, *each(parts["cell"], x, h, range(1, x.shape[1]))], 2)


def _layers_in_a_step(parts: Any, x: Tensor) -> Any:
    h, g, outs = zeros(x, 6), zeros(x, 6), []
    for t in range(x.shape[1]):
        h = parts["cell"](x[:, t], h)
        g = parts["two"](h, g)
        outs.append(torch.relu(parts["out"](g)).unsqueeze(1))
    return torch.cat(outs, 1), h


def _one_after_another(parts: Any, x: Tensor) -> Tensor:
    first = each(parts["cell"], x, zeros(x, 6))
    h = first[-1]
    for y in first:
        h = parts["two"](y, h)
    return h


def _feedback(parts: Any, x: Tensor, y: Tensor) -> Tensor:
    h, outs = torch.tanh(x), []
    for _ in range(9):
        h = parts["cell"](y, h)
        y = parts["out"](h)
        outs.append(y)
    return torch.stack(outs, 1)


def _of_chunks(parts: Any, x: Tensor) -> Tensor:
    h = zeros(x, 6)
    for part in x.split(2, 1):
        h = parts["cell"](part.flatten(1), h)
    return h


def _overlapping(parts: Any, x: Tensor) -> Tensor:
    h = zeros(x, 6)
    for t in range(x.shape[1] - 2):
        h = parts["cell"](x[:, t : t + 3].flatten(1), h)
    return h


def _filled(parts: Any, x: Tensor) -> Tensor:
    h, outs = zeros(x, 6), x.new_zeros(*x.shape[:2], 6)
    for t in range(x.shape[1]):
        h = parts["cell"](x[:, t], h)
        outs[:, t] = h
    return outs


def cell(inputs: int = 4) -> nn.Module:
    return nn.GRUCell(inputs, 6)


NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[tuple[int, ...], ...]], int]] = {
    "gru": (lambda: of_cell(cell()), lambda t: ((1, t, 4),), 1),
    "gru, samples": (lambda: of_cell(cell()), lambda t: ((3, t, 4),), 1),
    "rnn": (lambda: of_cell(nn.RNNCell(4, 6, nonlinearity="relu")), lambda t: ((2, t, 4),), 1),
    "lstm, a layer in each step": (
        lambda: Lifted(_lstm, cell=nn.LSTMCell(4, 6), out=nn.Linear(6, 2)),
        lambda t: ((2, t, 4),),
        1,
    ),
    "minGRU": (lambda: of_cell(MinGru(4, 6)), lambda t: ((1, t, 4),), 1),
    "liquid": (lambda: of_cell(Liquid(4, 6)), lambda t: ((2, t, 4),), 1),
    "FastGRNN": (lambda: of_cell(FastGrnn(4, 6)), lambda t: ((1, t, 4),), 1),
    "ConvLSTM": (lambda: Lifted(_conv, cell=ConvLstm(2, 3)), lambda t: ((1, t, 2, 5, 4),), 1),
    "both ways": (lambda: Lifted(_both_ways, cell=cell(), two=cell()), lambda t: ((1, t, 4),), 2),
    "from the end": (lambda: Lifted(_from_the_end, cell=cell()), lambda t: ((2, t, 4),), 1),
    "a first step of its own": (
        lambda: Lifted(_first_step, cell=cell(), first=nn.Linear(4, 6)),
        lambda t: ((2, t + 1, 4),),
        1,
    ),
    "layers in a step": (
        lambda: Lifted(_layers_in_a_step, cell=cell(), two=cell(6), out=nn.Linear(6, 5)),
        lambda t: ((1, t, 4),),
        1,
    ),
    "chunks": (lambda: Lifted(_of_chunks, cell=cell(8)), lambda t: ((2, 2 * t, 4),), 1),
    "overlapping windows": (lambda: Lifted(_overlapping, cell=cell(12)), lambda t: ((1, t + 2, 4),), 1),
    "written into a tensor": (lambda: Lifted(_filled, cell=cell()), lambda t: ((2, t, 4),), 1),
}
"""By name: a net, its inputs for so many steps, and how many loops it has."""
OF_NINE: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...], int]] = {
    "feedback": (lambda: Lifted(_feedback, cell=cell(), out=nn.Linear(6, 4)), ((1, 6), (1, 4)), 1),
    "one after another": (
        lambda: Lifted(_one_after_another, cell=cell(), two=nn.GRUCell(6, 6)),
        ((1, 9, 4),),
        1,
    ),
}
"""Nets of nine steps."""
