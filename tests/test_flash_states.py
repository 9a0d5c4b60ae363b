# SPDX-License-Identifier: Apache-2.0
"""`--max-flash` with models that remember: damage counts over many steps, and steps keep the bytes of the reference."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.ir.types import DType
from pillion.program import Program


class Cell(nn.Module):
    """A GRU whose state is a buffer, and a layer behind it; sizes are odd."""

    h: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.cell, self.last = nn.GRUCell(23, 41), nn.Linear(41, 7)
        self.register_buffer("h", torch.zeros(1, 41))

    def forward(self, x: Tensor) -> Tensor:
        self.h.copy_(self.cell(x, self.h))
        y: Tensor = self.last(self.h)
        return y


class Frames(nn.Module):
    """Convolutions along time, whose windows are streamed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first, self.second = nn.Conv1d(16, 40, 3), nn.Conv1d(40, 12, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.relu(self.first(x)))
        return y


STEPS = [torch.randn(1, 23, generator=torch.Generator().manual_seed(n)) for n in range(40)]
WINDOWS = [torch.randn(1, 16, 11, generator=torch.Generator().manual_seed(n)) for n in range(12)]


@cache
def cell(max_flash: int | None = None, **more: Any) -> Program:
    given = {"target": "cortex-m33", "calibrate": STEPS, "progress": False, "max_flash": max_flash}
    return pillion.compile(Cell().eval(), (STEPS[0],), **given, **more)


@cache
def frames(max_flash: int | None = None) -> Program:
    given = {"target": "cortex-m55", "calibrate": WINDOWS, "progress": False, "stream": ("x:2",)}
    return pillion.compile(Frames().eval(), (WINDOWS[0],), max_flash=max_flash, **given)


def layers_of_4_bits(program: Program) -> int:
    return sum(any(v.dtype is DType.INT4 for v in op.operands) for op in program.graph.ops)


@pytest.mark.slow
@pytest.mark.qemu
def test_a_cell_gets_4_bits_and_many_steps_judge_it() -> None:
    whole = cell()
    some, small = cell(whole.flash.bytes - 100), cell(whole.flash.bytes - 3000)
    assert 0 < layers_of_4_bits(some) < layers_of_4_bits(small)
    for program in (some, small):
        choice = program.four_bits
        assert choice is not None
        assert program.flash.bytes == choice.after_bytes
        real = Cell().eval()
        signal = noise = 0.0
        states = program.graph.initial
        for x in STEPS[:24]:
            outputs, states = program.graph.reference_step(states, x.numpy())
            wanted = real(x).detach().numpy()
            signal, noise = signal + np.square(wanted).sum(), noise + np.square(wanted - outputs[0]).sum()
        assert abs(10 * np.log10(signal / noise) - choice.after) < 3
    assert small.verify(3).ok


def test_damage_grows_through_states() -> None:
    """Rounded layers that feed a state cost quality, and not all of it."""
    choice = cell(cell().flash.bytes - 3000).four_bits
    assert choice is not None
    assert choice.before > choice.after > 15


@pytest.mark.slow
@pytest.mark.qemu
def test_streams_get_4_bits_by_the_flash_of_the_stream() -> None:
    whole = frames()
    small = frames(whole.flash.bytes - 800)
    choice = small.four_bits
    assert choice is not None
    assert choice.before_bytes == whole.flash.bytes
    assert small.flash.bytes == choice.after_bytes <= whole.flash.bytes - 800
    assert layers_of_4_bits(small) == len(choice.layers) > 0
