# SPDX-License-Identifier: Apache-2.0
"""Stripes over images beyond what 15 and 16 bits hold, and the costs that the search goes by, held against the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from nightly import part_of
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.ops import parse
from pillion.program import Program
from pillion.targets import find_target
from pillion.tiling.candidates import Candidates
from pillion.tiling.stripe import Stripe


def compiled(model: nn.Module, shape: tuple[int, ...], target: str) -> Program:
    torch.manual_seed(2)
    return pillion.compile(
        model.eval(), torch.randn(shape), target=target, io_dtype="int8", io_layout="nhwc", extra=0
    )


def input_of(program: Program) -> np.ndarray:
    shape = program.graph.inputs[0].shape
    return np.random.default_rng(9).integers(-128, 128, shape).astype(np.int8)


class Large(nn.Module):
    """Rows of more than 65,536 bytes, more than 32,768 of rows, a skip, a stride."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.c = nn.Conv2d(3, 2, (3, 1), stride=(2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x).relu()
        return self.c(self.b(y) + y)


@pytest.mark.slow
@pytest.mark.parametrize("shape", part_of([(1, 1, 9, 32_771), (1, 1, 32_771, 5), (2, 1, 263, 257)], 3))
def test_images_past_15_and_16_bits(shape: tuple[int, ...]) -> None:
    program = compiled(Large(), shape, "cortex-m33")
    rows = program.graph.ops[-1].results[0].shape[1]
    step = max(rows // 64, 1)
    striped = replace(program, memory_budget=(Stripe(0, len(program.graph.ops), step),))
    assert striped.memory.arena_bytes < program.memory.arena_bytes
    x = input_of(program)
    assert np.array_equal(striped.run(x, on="host")[0], program.graph.reference(x)[0])


class Mixed(nn.Module):
    """What nets for images begin with: a strided convolution, depthwise with both strides, pointwise, a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.one, self.wide = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 48, 1)
        self.two, self.back = nn.Conv2d(48, 48, 3, stride=2, padding=1, groups=48), nn.Conv2d(48, 24, 1)
        self.three, self.last = nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.Conv2d(24, 24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        relu = nn.functional.relu
        x = relu(self.one(relu(self.first(x))))
        x = self.back(relu(self.two(relu(self.wide(x)))))
        return x + self.last(relu(self.three(x)))


CORES = (("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547"))


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "board", "rows"), part_of([(*core, rows) for rows in (1, 2, 3, 4) for core in CORES], 3)
)
def test_estimates_agree_with_the_emulator(target: str, board: str, rows: int) -> None:
    """Of the instructions that stripes add to a program without any, the estimate is within a tenth."""
    program = compiled(Mixed(), (1, 3, 64, 64), target)
    stripe = Stripe(0, len(program.graph.ops), rows)
    choices = [KernelChoice(s.choice.op, s.choice.kernel, ()) for s in program.lowered.steps]
    estimated = Candidates(program.graph, choices, program.target.isa).exact_cost(stripe)
    x = input_of(program)
    whole, striped = (
        one.measure(x, on=board) for one in (program, replace(program, memory_budget=(stripe,)))
    )
    assert np.array_equal(whole.outputs[0], striped.outputs[0])
    assert whole.profile is not None
    assert striped.profile is not None
    counted = striped.profile.instructions - whole.profile.instructions
    assert abs(estimated - counted) < 0.1 * counted, (estimated, counted, whole.profile.instructions)


def test_operands_with_fewer_axes_broadcast_over_images() -> None:
    """The finding of a random program: an operand without an axis of images lay at other bytes for the second one."""
    graph = parse("""\
graph broadcast arithmetic=cmsis-nn
input x: int8[3, 4, 5, 8] @(0.05, -3)
input b: int8[5, 8] @(0.07, 9)
y: int8[3, 4, 5, 8] @(0.1, 0) = add(a=x, b=b) low=-128 high=127
z: int8[3, 4, 5, 8] @(0.1, 0) = clamp(x=y) low=-100 high=90
output z
""")
    program = Program(graph, find_target("cortex-m33"), memory_budget=(Stripe(0, 2, 1),))
    random = np.random.default_rng(1)
    inputs = [random.integers(-128, 128, v.shape).astype(np.int8) for v in graph.inputs]
    assert np.array_equal(program.run(*inputs, on="host")[0], graph.reference(*inputs)[0])
