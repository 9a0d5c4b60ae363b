# SPDX-License-Identifier: Apache-2.0
"""Random networks with branches and states, some ops kept on the core, in steps against the late NPU."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from late_npu import random_schedules
from torch import nn

import pillion
from pillion.memory.npu_calls import overlapped_ops
from pillion.program import Program
from pillion.run.random_inputs import random_samples

X = torch.linspace(-1, 1, 3 * 12 * 10).reshape(1, 3, 12, 10)
KINDS = ("conv", "conv", "conv", "largest", "mean", "sqrt", "sigmoid", "sum", "both")
ON_CORE = ("*pool*", "add*", "lut", "concat*", "sqrt*", "sigmoid*")


OVERLAPPING = (2, 4, 8, 10, 12, 17, 18, 21, 27)
"""Seeds of networks in which the core works beside the NPU."""


class RandomNet(nn.Module):
    """Up to twelve layers, each of one or two of the last four results, and perhaps a state."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        dice = random.Random(seed)
        channels = dice.choice([4, 8])
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.has_state = dice.random() < 0.4
        self.register_buffer("held", torch.rand(1, channels, 12, 10))
        makers = {
            "conv": lambda: nn.Conv2d(channels, channels, 3, padding=1),
            "both": lambda: nn.Conv2d(2 * channels, channels, 1),
            "largest": lambda: nn.MaxPool2d(3, 1, 1),
            "mean": lambda: nn.AvgPool2d(3, 1, 1),
        }
        self.plan: list[tuple[str, int, int]] = []
        self.layers = nn.ModuleList()
        for number in range(1, dice.randint(6, 13)):
            kind, near = dice.choice(KINDS), max(0, number - 4)
            self.plan.append((kind, dice.randrange(near, number), dice.randrange(near, number)))
            self.layers.append(makers.get(kind, nn.Identity)())
        count = len(self.plan)
        self.ends = sorted({count, *dice.sample(range(1, count + 1), 2)})
        self.kept = dice.randrange(count)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = [torch.relu(self.stem(x))]
        for (kind, first, second), layer in zip(self.plan, self.layers, strict=True):
            one, other = made[first], self.held if self.has_state and second % 3 == 0 else made[second]
            made.append(self.layer(kind, layer, one, other))
        if self.has_state:
            self.held.copy_(torch.sigmoid(made[self.kept]))  # type: ignore[operator]  # a buffer
        return tuple(made[end] for end in self.ends)

    def layer(self, kind: str, layer: nn.Module, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        match kind:
            case "sqrt":
                return torch.sqrt(torch.relu(one) + 0.1)
            case "sigmoid":
                return torch.sigmoid(one)
            case "sum":
                return one + other
            case "both":
                return layer(torch.cat((one, other), 1))
        return layer(one)


def compiled(seed: int, *, overlap: bool) -> Program:
    """The network with those of the patterns that match something."""
    dice = random.Random(seed)
    target = dice.choice(["cortex-m55+ethos-u55-128", "imxrt700"])
    wanted = dice.sample(ON_CORE, dice.randint(1, 4))
    common = {"target": target, "prefer_npu": True, "name": "net", "io_dtype": "int8", "io_layout": "nhwc"}
    whole = pillion.compile(RandomNet(seed).eval(), (X,), **common)  # type: ignore[arg-type]  # of any option
    ops = [entry.op for entry in whole.ledger]
    kept = tuple(p for p in wanted if any(_matches(p, op.name, op.kind) for op in ops))
    extra = {"extra": "30%"} if dice.random() < 0.3 else {}
    return pillion.compile(RandomNet(seed).eval(), (X,), keep_on_cpu=kept, overlap=overlap, **common, **extra)  # type: ignore[arg-type]  # of any option


def _matches(pattern: str, name: str, kind: str) -> bool:
    return pillion.PlacementOptions((pattern,)).keeps(name, kind) is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", OVERLAPPING)
def test_random_networks_give_the_same_bytes(seed: int, tmp_path: Path) -> None:
    overlapped, blocking = (compiled(seed, overlap=overlap) for overlap in (True, False))
    assert any(overlapped_ops(overlapped.lowered.graph).values())
    samples = random_samples(blocking.graph, 4, seed)
    answer = random_schedules(tmp_path, [(overlapped, blocking)], [samples], 100, seed)
    assert answer == "0 of 100 wrong, preempted 0 times"
