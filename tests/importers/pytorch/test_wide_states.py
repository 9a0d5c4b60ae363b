# SPDX-License-Identifier: Apache-2.0
"""States of loops have 16 bits where a step adds a change to them that is smaller, and only in C."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType
from pillion.ops import Dequantize, Scan
from pillion.ops.scan import flatten_ops
from pillion.passes import demote_sums

POLICIES: Any = importlib.import_module("pillion.importers.torch.quantize.range_policies")
STEPS = 11


class Leaky(nn.Module):
    """Two states that keep most of what they were; the second begins as an input says, and the last of both are outputs."""

    def __init__(self, keep: float) -> None:
        super().__init__()
        self.x, self.h, self.out, self.keep = nn.Linear(5, 7), nn.Linear(7, 7), nn.Linear(7, 3), keep

    def forward(self, x: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        h = x.new_zeros(1, 7)
        outs = []
        for t in range(STEPS):
            h = h + self.keep * (torch.tanh(self.x(x[:, t])) - h)
            c = c + self.keep * torch.tanh(self.h(h))
            outs.append(self.out(c))
        return torch.stack(outs, 1), h, c


class Remembering(nn.Module):
    """An LSTM whose gates forget the less, the more is `kept`."""

    def __init__(self, kept: float = 4) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(5, 13, batch_first=True), nn.Linear(13, 3)
        with torch.no_grad():
            self.layer.bias_ih_l0[13:26] += kept

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y, (h, c) = self.layer(x)
        return self.head(y), h[0], c[0]


def samples(count: int, seed: int, *, state: bool) -> list[tuple[Tensor, ...]]:
    made = torch.Generator().manual_seed(seed)
    drawn = [
        (torch.randn(1, STEPS, 5, generator=made), torch.randn(1, 7, generator=made)) for _ in range(count)
    ]
    return drawn if state else [(x,) for x, _ in drawn]


EXACT_BIASES = pillion.Tuning(correct_biases=False)
"""Corrected biases take back what rounding to 8 bits shifts, so they differ from those of a program with 16 bits."""


def compiled(net: nn.Module, target: str = "cortex-m55", **options: Any) -> pillion.Program:
    data = samples(8, 0, state=isinstance(net, Leaky))
    return pillion.compile(
        net, data[0], target=target, calibrate=data, progress=False, tuning=EXACT_BIASES, **options
    )


def net_of(kind: str) -> nn.Module:
    torch.manual_seed(3)
    return (Leaky(0.1) if kind == "leaky" else Remembering()).eval()


def noise(net: nn.Module, program: pillion.Program) -> float:
    """The squared error of the first output where it was calibrated: nothing is cut off there."""
    found: list[Any] = []
    for one in samples(8, 0, state=isinstance(net, Leaky)):
        with torch.no_grad():
            found.append(program.run(*one)[0] - net(*one)[0].numpy())
    return float(np.square(np.stack(found)).mean())


def carried(program: pillion.Program) -> list[DType]:
    return [v.dtype for op in program.graph.ops if isinstance(op, Scan) for v in op.carried]


def int8_program(net: nn.Module, monkeypatch: pytest.MonkeyPatch, **options: Any) -> pillion.Program:
    with monkeypatch.context() as without:
        without.setattr(POLICIES, "use_int16_states", lambda *given: None)
        return compiled(net, **options)


@pytest.mark.turns(4)
@pytest.mark.parametrize(("kind", "wide"), [("leaky", 2), ("lstm", 1)])
def test_states_with_small_changes_have_16_bits(
    kind: str, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = net_of(kind)
    program, narrow = compiled(net), int8_program(net, monkeypatch)
    assert carried(program).count(DType.INT16) == wide
    assert DType.INT16 not in carried(narrow)
    assert noise(net, program) < 0.75 * noise(net, narrow)
    assert [v.type for v in program.graph.outputs] == [v.type for v in narrow.graph.outputs]
    given_back = [op.x.dtype for op in program.graph.ops if isinstance(op, Dequantize)]
    assert given_back.count(DType.INT16) == wide  # the last states are outputs, with all of their bits


@pytest.mark.turns(3)
@pytest.mark.parametrize(("kind", "stateful"), [("leaky", False), ("leaky", True), ("lstm", True)])
def test_the_host_agrees_and_files_are_as_with_8_bits(
    kind: str, stateful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = net_of(kind)
    program, narrow = compiled(net, stateful=stateful), int8_program(net, monkeypatch, stateful=stateful)
    given = samples(4, 2, state=kind == "leaky")
    here, there = program.stream("reference"), program.stream("host")
    for one in given:
        wanted, found = here.step(*one), there.step(*one)
        assert [y.tobytes() for y in wanted] == [y.tobytes() for y in found]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert program.pte()
        assert kind == "leaky" or program.tflite()
    assert any("states of loops have 8 bits there" in str(one.message) for one in said)
    graphs = demote_sums(program.graph), narrow.graph
    assert sorted(op.kind for op in flatten_ops(graphs[0].ops)) == sorted(
        op.kind for op in flatten_ops(graphs[1].ops)
    )
    answers: list[Any] = [(), ()]
    states = [tuple(state.initial for state in graph.states) for graph in graphs]
    for one in given:
        for at, graph in enumerate(graphs):
            answers[at], states[at] = graph.reference_step(states[at], *(x.numpy() for x in one))
        assert [y.tobytes() for y in answers[0]] == [y.tobytes() for y in answers[1]]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("kind", "target"), [("leaky", "cortex-m33"), ("leaky", "cortex-m55"), ("lstm", "cortex-m55")]
)
@pytest.mark.qemu
def test_boards_answer_the_same(kind: str, target: str) -> None:
    program = compiled(net_of(kind), target)
    for one in samples(2, 4, state=kind == "leaky"):
        found = program.run(*one, on=program.target.core.board)
        assert [y.tobytes() for y in found] == [y.tobytes() for y in program.run(*one)]


def has_wide_ops(program: pillion.Program) -> bool:
    return any(op.has_own_int16_form(Arithmetic.CMSIS_NN) for op in flatten_ops(program.graph.ops))


def test_states_that_change_as_a_whole_keep_8_bits() -> None:
    torch.manual_seed(3)
    program = compiled(Remembering(-3.0).eval())
    assert not has_wide_ops(program)
    assert set(carried(program)) == {DType.INT8}


@pytest.mark.turns(4)
@pytest.mark.parametrize("options", [{"target": "imxrt700"}, {"arithmetic": "tflite"}])
def test_npus_and_other_arithmetic_keep_8_bits(options: dict[str, Any]) -> None:
    program = compiled(net_of("lstm"), **options)
    assert not has_wide_ops(program)
    assert DType.INT16 not in carried(program)


@pytest.mark.turns(3)
def test_narrow_programs_have_no_16_bits() -> None:
    for stateful in (False, True):
        graph = demote_sums(compiled(net_of("leaky"), stateful=stateful).graph)
        inside = [op.body for op in graph.ops if isinstance(op, Scan)]
        assert inside
        assert all(v.dtype is not DType.INT16 for g in (graph, *inside) for v in g.values.values())
