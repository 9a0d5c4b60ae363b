# SPDX-License-Identifier: Apache-2.0
"""What networks over time take that are fed a few frames at a time: instructions of a call, beside those of a run over the whole window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import pillion
from pillion.program import Program

COMPARED = 40
"""Runs whose bytes are compared with the reference's: those of a whole window and more."""
TIME = 2
"""The axis of time in all of these networks."""

Figures = dict[str, Any]


class Spotter(nn.Module):
    """The zoo's ds_cnn without padding in time: frames [1, 1, time, 10], a convolution and four separable ones, a mean, a linear layer."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 64, (10, 4), (stride, 2), padding=(0, 1))
        blocks: list[nn.Module] = []
        for _ in range(4):
            blocks += [nn.Conv2d(64, 64, 3, padding=(0, 1), groups=64), nn.ReLU()]
            blocks += [nn.Conv2d(64, 64, 1), nn.ReLU()]
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(64, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.blocks(torch.relu(self.stem(x))).mean((2, 3))), -1)


class Dilated(nn.Module):
    """Frames [1, 40, time]: four dilated convolutions without padding, a mean, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        channels = (40, 64, 64, 64, 64)
        self.layers = nn.ModuleList(
            nn.Conv1d(channels[i], channels[i + 1], 3, dilation=2**i) for i in range(4)
        )
        self.head = nn.Linear(64, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return torch.softmax(self.head(x.mean(2)), -1)


class Causal(nn.Module):
    """Frames [1, 64, time]: ten residual blocks of two dilated convolutions that are padded in front; an answer for each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(64, 64, 3, dilation=2 ** (i // 2 % 5)) for i in range(20))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layers = list(self.layers)
        for one, other in zip(layers[::2], layers[1::2], strict=True):
            reach = 2 * int(one.dilation[0])  # type: ignore[arg-type, index]  # a module's attribute
            y = torch.relu(one(functional.pad(x, (reach, 0))))
            x = torch.relu(x + other(functional.pad(y, (reach, 0))))
        return x


@dataclass(frozen=True)
class Net:
    """A network, the shape of a window, and the hops that it is measured with."""

    what: str
    make: Any
    shape: tuple[int, ...]
    hops: tuple[int, ...]


MODELS = {
    "ds_cnn, stride 2": Net("DS-CNN without padding in time", lambda: Spotter(2), (1, 1, 48, 10), (1, 2)),
    "ds_cnn, stride 1": Net("the same, stride 1 in time", lambda: Spotter(1), (1, 1, 48, 10), (1,)),
    "dilated": Net("four dilated `Conv1d`, 40 to 64 channels", Dilated, (1, 40, 50), (1,)),
    "causal": Net("twenty causal dilated `Conv1d`, 64 channels", Causal, (1, 64, 64), (1, 2, 4, 8)),
}


def compiled(net: Net, core: str, hop: int | None = None) -> Program:
    """A network for a core: of the whole window or, with a hop, as a stream; int8 inputs and outputs."""
    torch.manual_seed(0)
    model = net.make().eval()
    samples = [(torch.randn(net.shape),) for _ in range(2)]
    over_time: Any = {} if hop is None else {"stream": f"x:{TIME}", "hop": hop}
    return pillion.compile(
        model, samples[0], target=core, calibrate=samples, name="net", io_dtype="int8", extra=0, **over_time
    )


def measured(label: str, core: str, board: str) -> Figures:
    """What the whole window takes, and what a call takes with each hop."""
    net = MODELS[label]
    found = {"whole": on_board(compiled(net, core), board)}
    for hop in net.hops:
        found[f"--hop {hop}"] = on_board(compiled(net, core, hop), board)
    return found


def on_board(program: Program, board: str) -> Figures:
    """The figures of one program, whose bytes over some runs are those of the reference."""
    rng, streaming = np.random.default_rng(1), program.streaming
    (value,) = program.graph.inputs
    profile = program.measure(
        rng.integers(-128, 128, value.shape).astype(np.int8), on=board, timeout=300
    ).profile
    assert profile is not None
    calls = streaming.calls if streaming else 1
    frames = streaming.inputs[0].frames // calls if streaming else value.shape[TIME]
    shape = tuple(frames if axis == TIME else size for axis, size in enumerate(value.shape))
    given = [(rng.integers(-128, 128, shape).astype(np.int8),) for _ in range(COMPARED * calls)]
    ours, theirs = (program.stream(on, timeout=300).run(given) for on in (board, "reference"))
    for one, other in zip(ours, theirs, strict=True):
        assert all(map(np.array_equal, one, other)), f"other bytes than the reference on {board}"
    return {
        "instructions": profile.instructions,
        "mean_instructions": round(profile.instructions / calls),
        "frames": frames,
        "arena_bytes": program.memory.arena_bytes,
        "state_bytes": program.memory.state_bytes,
        "code_bytes": profile.code_bytes,
    }


def share(figures: Figures, way: str) -> float:
    """Gives how much more a frame takes that is fed in some way than one of a run over the whole window."""
    whole, one = figures["whole"], figures[way]
    return float(one["mean_instructions"] / one["frames"] / (whole["instructions"] / whole["frames"]))


def lines(label: str, core: str, figures: Figures) -> str:
    """What is printed of a network on a core."""
    return "\n".join(
        f"{label:20} {core:10} {way:10} {one['instructions']:>12,} {one['mean_instructions']:>12,} {share(figures, way):6.2f} x its share "
        f"{one['arena_bytes']:>8,} {one['state_bytes']:>8,} {one['code_bytes']:>7,}"
        for way, one in figures.items()
    )
