# SPDX-License-Identifier: Apache-2.0
"""Small nets as people write them that end in places, choices and constants, or are written in steps of their own, for
`test_index_nets.py`."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nets_as_written import Net, call, net


def points(x: Tensor, heat: nn.Module) -> tuple[Tensor, Tensor]:
    """Columns and rows of the largest pixels, and how large these are."""
    found, place = heat(x).flatten(2).max(2)
    return torch.stack([place % 16, torch.div(place, 16, rounding_mode="floor")], -1), found


def centres(x: Tensor, heat: nn.Module, offset: nn.Module) -> tuple[Tensor, ...]:
    """Boxes without anchors: peaks, their classes, and where they are to a part of a pixel."""
    peaks = torch.sigmoid(heat(x))
    peaks = peaks * (F.max_pool2d(peaks, 3, 1, 1) == peaks).float()
    scores, places = torch.topk(peaks.flatten(1), 4)
    classes, places = places // 120, places % 120
    moved = offset(x).permute(0, 2, 3, 1).reshape(1, -1, 2)
    moved = moved.gather(1, places.unsqueeze(2).expand(1, 4, 2))
    columns, rows = places % 12 + moved[..., 0], places // 12 + moved[..., 1]
    return scores, classes, columns, rows


def by_quarters(x: Tensor, table: nn.Module) -> Tensor:
    return table(torch.bucketize(x, torch.tensor([-0.7, 0.0, 0.7]))).flatten(1)


def hard_choice(x: Tensor, gate: nn.Module, expert: nn.Module) -> Tensor:
    """The experts of the two largest gates, the others left out."""
    gates = gate(x).softmax(-1)
    kept = torch.zeros_like(gates).scatter(1, gates.topk(2, -1).indices, 1.0) * gates
    return (expert(x).view(-1, 4, 6) * kept.unsqueeze(-1)).sum(1)


def orthonormal(x: Tensor) -> Tensor:
    """A rotation from six numbers."""
    a, b = F.normalize(x[:, :3], dim=1), x[:, 3:]
    b = F.normalize(b - (a * b).sum(1, keepdim=True) * a, dim=1)
    return torch.stack([a, b, torch.cross(a, b, dim=1)], 1)


def energies(x: Tensor, gain: Tensor, root: Tensor) -> Tensor:
    """Energies of channels in an automatic gain of their own."""
    loud = x.abs()
    smooth = F.avg_pool1d(F.pad(loud, (4, 0)), 5, 1)
    return (loud / (smooth + 0.1) ** gain + 2.0) ** root - 2.0**root


class Gain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.6, 0.98, 10).reshape(10, 1))
        self.root = nn.Parameter(torch.linspace(0.3, 0.6, 10).reshape(10, 1))

    def forward(self, x: Tensor) -> Tensor:
        return energies(x, self.gain, self.root)


class Scan(nn.Module):
    """A state space whose steps depend on what they see."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.steps, self.last = nn.Linear(6, 16), nn.Linear(8, 9), nn.Linear(8, 6)
        self.rates = nn.Parameter(torch.log(torch.arange(1, 5).float()).repeat(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.first(x).chunk(2, -1)
        time, into, out = self.steps(F.silu(u)).split([1, 4, 4], -1)
        time, state, seen = F.softplus(time), torch.zeros(1, 8, 4), []
        for t in range(x.shape[1]):
            kept = torch.exp(-time[:, t, :, None] * self.rates.exp())
            state = kept * state + (time[:, t] * u[:, t]).unsqueeze(-1) * into[:, t, None]
            seen.append((state * out[:, t, None]).sum(-1))
        return self.last(torch.stack(seen, 1) * F.silu(gate))


class BestPath(nn.Module):
    """The best sequence of labels, followed back from its end."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.moves = nn.Linear(4, 5), nn.Parameter(torch.randn(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.scores(x)
        best, back = scores[:, 0], []
        for t in range(1, x.shape[1]):
            best, place = (best.unsqueeze(2) + self.moves).max(1)
            best = best + scores[:, t]
            back.append(place)
        path = [best.argmax(1, keepdim=True)]
        for place in reversed(back):
            path.append(place.gather(1, path[-1]))
        return torch.cat(path[::-1], 1)


class Capsules(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.votes = nn.Conv2d(1, 8, 5, 3), nn.Parameter(torch.randn(1, 3, 12, 6, 4) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        votes = (self.votes @ self.first(x).view(1, 1, 12, 4, 1)).squeeze(-1)
        shares = torch.zeros(1, 3, 12, 1)
        for _ in range(2):
            found = (shares.softmax(1) * votes).sum(2)
            found = found / (1 + found.norm(dim=-1, keepdim=True))
            shares = shares + (votes * found.unsqueeze(2)).sum(-1, keepdim=True)
        return found.norm(dim=-1)


class Splines(nn.Module):
    """Sums of bumps of each input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(-2, 2, 8))
        self.straight, self.bumps = nn.Linear(5, 4), nn.Linear(40, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        near = torch.exp(-(((x.unsqueeze(-1) - self.centres) * 1.75) ** 2))
        return self.straight(F.silu(x)) + self.bumps(near.flatten(1))


class Boxes(nn.Module):
    """Boxes by distributions of distances to their sides."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(8, 4 * 8 + 3, 1)
        self.register_buffer("bins", torch.arange(8.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        sides, classes = self.head(x).flatten(2).split([32, 3], 1)
        apart = (sides.view(1, 4, 8, 36).softmax(2) * self.bins.view(1, 1, 8, 1)).sum(2)
        place = torch.arange(36)
        middle = torch.stack([place % 6 + 0.5, place // 6 + 0.5])
        first, last = apart.chunk(2, 1)
        return torch.cat([middle - first, middle + last], 1) * 8, classes.sigmoid()


class Rotated(nn.Module):
    """Attention whose queries and keys are turned by their places."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.last = nn.Linear(32, 96), nn.Linear(32, 32)

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(12).float(), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        cos, sin, even, odd = angles.cos(), angles.sin(), x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.all(x).view(1, 12, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.last(seen.transpose(1, 2).reshape(1, 12, 32))


class Spectrum(nn.Module):
    """Logarithms of energies in bands, as convolutions with windowed waves."""

    def __init__(self) -> None:
        super().__init__()
        angles = 2 * math.pi / 64 * torch.arange(64) * torch.arange(33)[:, None]
        window = torch.hann_window(64)
        self.register_buffer("cosines", (angles.cos() * window).unsqueeze(1))
        self.register_buffer("sines", (angles.sin() * window).unsqueeze(1))
        self.register_buffer("bands", torch.rand(12, 33) / 33)
        self.net = nn.Sequential(nn.Conv1d(12, 8, 3, 2), nn.BatchNorm1d(8), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = (F.conv1d(x.unsqueeze(1), wave, stride=32) for wave in (self.cosines, self.sines))
        return self.net(torch.log(self.bands @ sum(part**2 for part in parts) + 1e-3))


def outputs_of_all_kinds(x: Tensor, layer: nn.Module) -> Any:
    """What is computed, twice and in another shape; the input; constants."""
    y = layer(x)
    return {
        "y": y,
        "again": y,
        "row": y.view(-1),
        "x": x,
        "names": torch.arange(3),
        "scale": torch.tensor(0.5),
    }


class Unpooled(nn.Module):
    """A segmentation net that remembers where its largest pixels were."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.inner, self.after = (
            nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 8), (8, 8), (8, 3))
        )
        self.down, self.up = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x, places = self.down(F.relu(self.before(x)))
        return self.after(self.up(F.relu(self.inner(x)), places))


class Edges(nn.Module):
    """A net over a graph: messages along its edges, added where these end."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Linear(8, 8)
        self.register_buffer("edges", torch.arange(48).reshape(2, 24) * 7 % 10)

    def forward(self, x: Tensor) -> Tensor:
        ends, starts = self.edges
        messages = F.relu(self.message(torch.cat([x[ends], x[starts] - x[ends]], -1)))
        return x.new_zeros(10, 8).index_add(0, ends, messages)


def normalize_axes(x: Tensor, filters: nn.Module) -> Tensor:
    """Signals centred and scaled by hand: the mean of what is centred is nothing but rounding."""
    x = x - x.mean(1, keepdim=True)
    x = torch.nan_to_num(x / (x.std(1, keepdim=True, unbiased=False) + 1e-3))
    return filters(torch.diff(x, dim=1).permute(0, 2, 1)).abs().mean(-1)


torch.manual_seed(0)  # of the layers that are made here
NETS: dict[str, Net] = {
    "points of a heat map": call(points, (1, 3, 12, 16), heat=nn.Conv2d(3, 5, 3, padding=1)),
    "centres of objects": call(
        centres, (1, 8, 10, 12), heat=nn.Conv2d(8, 3, 1), offset=nn.Conv2d(8, 2, 1), may_lose=2
    ),
    "rows by quarters": call(by_quarters, (3, 4), table=nn.Embedding(4, 3), may_lose=20),
    "two experts of four": call(
        hard_choice, (4, 12), gate=nn.Linear(12, 4), expert=nn.Linear(12, 24), may_lose=2
    ),
    "rotations": call(orthonormal, (3, 6), may_lose=2),
    "gains of channels": net(Gain, (1, 10, 30), may_lose=3),
    "products": call(
        lambda x: ((x.abs() + 0.5).prod(1), (torch.sigmoid(x) + 0.3).cumprod(2)), (2, 3, 8), may_lose=4
    ),
    "sums at places": call(
        lambda x: (x.scatter_add(1, *x.topk(3, -1)[::-1]), torch.zeros_like(x).scatter(1, *x.topk(3)[::-1])),
        (2, 9),
        may_lose=2,
    ),
    "states that choose what they see": net(Scan, (1, 6, 6), may_lose=3),
    "best path": net(BestPath, (1, 5, 4)),
    "capsules": net(Capsules, (1, 1, 12, 8), may_lose=5),
    "bumps": net(Splines, (3, 5), may_lose=2),
    "boxes by distributions": net(Boxes, (1, 8, 6, 6), may_lose=2),
    "turned attention": net(Rotated, (1, 12, 32), may_lose=2),
    "spectrum": net(Spectrum, (1, 512), may_lose=2),
    "pixels go back to where they were": net(Unpooled, (1, 3, 12, 16), may_lose=3),
    "messages along edges": net(Edges, (10, 4), may_lose=3),
    "signals centred by hand": call(normalize_axes, (1, 50, 4), filters=nn.Conv1d(4, 8, 5), may_lose=4),
    "outputs of all kinds": call(outputs_of_all_kinds, (2, 4), layer=nn.Linear(4, 3)),
}
