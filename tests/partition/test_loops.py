# SPDX-License-Identifier: Apache-2.0
"""Loops on chips with an NPU: copies of their steps where these are estimated to be faster, or are preferred; and what says so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.compile_options import PlacementOptions
from pillion.partition import inline_segments, loop_copies
from pillion.partition.loop_copies import RULE
from pillion.program import Program
from pillion.run.float_interface import imported_name

STEPS, FEATURES, CELLS = 5, 9, 35


class Own(nn.Module):
    """A cell of linear layers, in a loop of one's own."""

    def __init__(self, cells: int = CELLS) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.x, self.h, self.head = nn.Linear(FEATURES, cells), nn.Linear(cells, cells), nn.Linear(cells, 3)
        self.cells = cells

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], self.cells)
        for step in range(x.shape[1]):
            h = torch.tanh(self.x(x[:, step]) + self.h(h))
        return self.head(h)


class Layer(nn.Module):
    """A recurrent layer of PyTorch, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.GRU(FEATURES, CELLS, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * CELLS, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])


class Stream(Layer):
    """A recurrent layer that goes with time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(FEATURES, CELLS, batch_first=True), nn.Linear(CELLS, 3)


def compiled(model: nn.Module, target: str = "imxrt700", **placement: object) -> Program:
    xs = [torch.randn(1, STEPS, FEATURES, generator=torch.Generator().manual_seed(n)) for n in range(4)]
    options = PlacementOptions(**placement)  # type: ignore[arg-type]  # what each test asks
    return pillion.compile(
        model.eval(), xs[0], target=target, calibrate=xs, placement=options, progress=False
    )


def kinds(program: Program) -> set[str]:
    return {op.kind for op in program.graph.ops}


@pytest.mark.turns(6)
@pytest.mark.parametrize("make", [Own, Layer])
def test_steps_are_copied_where_that_is_faster(make: type[nn.Module]) -> None:
    program = compiled(make())
    assert "scan" not in kinds(program)
    assert program.ledger.copied
    assert all(loop.count == STEPS and loop.deciding.rule == RULE for loop in program.ledger.copied)
    assert {e.op.kind for e in program.ledger if e.segment is None} <= {"quantize", "dequantize"}
    assert f"{STEPS} copies of its steps for the NPU, {RULE}: wanted less than" in program.explain()
    for name in ("repeat", "scan"):  # the former is what the version before called it
        kept = compiled(make(), keep_on_cpu=(name,))
        assert "scan" in kinds(kept)
    assert program.verify(2).ok
    x = torch.randn(1, STEPS, FEATURES, generator=torch.Generator().manual_seed(9))
    (one,), (other,) = program.run(x), kept.run(x)
    assert np.abs(one - other).max() <= 0.05 * np.abs(other).max()


def test_a_copy_is_not_compared_with_the_floats_of_another_step() -> None:
    """In float a loop is one: its tensors have no step."""
    program = compiled(Own())
    assert program.floats is not None
    known = program.floats([np.zeros((1, STEPS, FEATURES), np.float32)])
    inside = {imported_name(v) for v in inline_segments(program.graph).values.values()} & known.keys()
    assert {name.removesuffix("_f") for name in inside if name.startswith(("linear", "tanh", "add"))} == {
        imported_name(program.ledger.entries[-1].op.operands[0])
    }


def test_a_loop_that_is_no_faster_so_says_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core of this chip has vectors, and to begin takes the NPU longer."""
    program = compiled(Own(), "cortex-m55+ethos-u55-128")
    (entry,) = (e for e in program.ledger if e.op.kind == "scan")
    assert entry.deciding.rule == RULE
    assert "with copies of its steps" in str(entry.deciding.got)
    assert not program.ledger.copied
    monkeypatch.setattr(loop_copies, "MOST_COPIES", 20)
    (entry,) = (e for e in compiled(Own()).ledger if e.op.kind == "scan")
    assert entry.because == f"{RULE}: wanted at most 20 ops in all steps, got {STEPS * 5 + 1}"


@pytest.mark.parametrize("asked", ["prefer_npu", "only_npu"])
def test_loops_are_copied_if_the_npu_is_preferred(asked: str) -> None:
    program = compiled(Own(), "cortex-m55+ethos-u55-128", **{asked: True})
    assert "scan" not in kinds(program)
    assert "linear" in {entry.op.kind for entry in program.ledger.on_npu}
    (loop,) = program.ledger.copied
    assert loop.deciding.wanted == "copies of its steps of which the NPU takes ops"


def test_streams_keep_their_loops() -> None:
    """For all windows alike: NPU and core round differently."""
    model, xs = Stream().eval(), torch.randn(1, STEPS, FEATURES)
    program = pillion.compile(model, xs, target="imxrt700", stream="x:1", hop=4, progress=False)
    assert "scan" in kinds(program)
    assert not program.ledger.copied
