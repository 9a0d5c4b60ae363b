# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and loops of one's own in 16 bits: sequences, states and all inside, the same bytes everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from nightly import in_turn
from pillion.ir.types import DType
from pillion.ops import Scan, unroll_loops
from pillion.program import Program
from test_sequences import Layer, Marks, samples

STEPS = 211


class Written(nn.Module):
    """A loop of one's own whose first state is learned, with a layer on each step's result."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.rand(1, 7))
        self.cell, self.out = nn.GRUCell(3, 7), nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:
        h, outs = self.first, []
        for t in range(9):
            h = self.cell(x[:, t], h)
            outs.append(self.out(h))
        return torch.stack(outs, 1)


class Remembering(nn.Module):
    """An LSTM whose cell is 16 bits wide in a program of 8 bits, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(5, 13, batch_first=True), nn.Linear(13, 3)
        with torch.no_grad():
            self.layer.bias_ih_l0[13:26] += 4

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])


NETS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "lstm": (lambda: Layer(nn.LSTM, 5, 9), ((STEPS, 2, 5),)),
    "gru of many steps": (lambda: Layer(nn.GRU, 3, 5), ((STEPS, 1, 3),)),
    "lstm, states given": (lambda: Layer(nn.LSTM, 3, 8, proj_size=5), ((4, 1, 3), (1, 1, 5), (1, 1, 8))),
    "lstm that remembers": (Remembering, ((1, 23, 5),)),
    "gru": (
        lambda: Layer(nn.GRU, 7, 11, num_layers=2, bidirectional=True, batch_first=True),
        ((1, 7, 7),),
    ),
    "rnn": (lambda: Layer(nn.RNN, 6, 11), ((5, 3, 6),)),
    "rnn of relu": (lambda: Layer(nn.RNN, 6, 5, nonlinearity="relu"), ((5, 1, 6),)),
    "written": (Written, ((1, 9, 3),)),
}
CORES = ["cortex-m33", "cortex-m55"]


def compiled(net: str, target: str = CORES[0], **options: Any) -> tuple[nn.Module, Program, Any]:
    make, shapes = NETS[net]
    torch.manual_seed(3)
    module, data = make().eval(), samples(shapes, 2)
    options = options or {"precision": "int16"}
    return (
        module,
        pillion.compile(module, data[0], target=target, calibrate=data, progress=False, **options),
        data,
    )


def answers(program: Program, one: Any, **options: Any) -> list[Any]:
    found: Any = program.run(*one, **options)
    return list(found) if isinstance(found, (list, tuple)) else [found]


@pytest.mark.turns(4)
@pytest.mark.parametrize(("net", "target"), in_turn(NETS, CORES))
@pytest.mark.qemu
def test_all_of_a_loop_has_16_bits_and_the_same_bytes_everywhere(net: str, target: str) -> None:
    _, program, data = compiled(net, target)
    loops = [op for op in program.graph.ops if isinstance(op, Scan)]
    assert loops
    for op in loops:
        values = {v for inner in (op, *op.body.ops) for v in (*inner.operands, *inner.results)}
        assert {v.dtype for v in values if not v.is_constant} == {DType.INT16}
    one = data[0]
    wanted = answers(program, one)
    copies = [program.graph.reference(*(x.numpy() for x in one))]
    if loops[0].count < 10:
        copies.append(unroll_loops(program.graph).reference(*(x.numpy() for x in one)))
    for found in (
        *copies,
        answers(program, one, on="host"),
        answers(program, one, on=program.target.core.board),
    ):
        assert [y.tobytes() for y in found] == [y.tobytes() for y in wanted]


@pytest.mark.parametrize("net", ["lstm that remembers", "gru"])
def test_16_bits_are_nearer_to_the_float_model(net: str) -> None:
    found = {}
    for precision in ("int8", "int16"):
        module, program, data = compiled(net, precision=precision)
        found[precision] = noise(module, program, data)
    assert found["int16"] < 0.7 * found["int8"]  # what is left is that of weights of 8 bits


def noise(module: nn.Module, program: Program, data: Any) -> float:
    total = 0.0
    for one in data:
        with torch.no_grad():
            wanted: Any = module(*one)
        wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
        pairs = zip(wanted, answers(program, one), strict=True)
        total += sum(float(np.square(x.numpy() - y).sum()) for x, y in pairs)
    return total


@pytest.mark.parametrize("choice", [{"precision": "int16"}, {"int16": ["layer"]}], ids=str)
def test_states_between_runs_have_16_bits(choice: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module, signals = Marks().eval(), samples(((1, 12, 4),), 5)
    windows = [(x[:, at : at + 4],) for (x,) in signals for at in (0, 4, 8)]
    program = pillion.compile(
        module, windows[0], target=CORES[1], calibrate=windows, stateful=True, progress=False, **choice
    )
    assert {state.before.dtype for state in program.graph.states} == {DType.INT16}
    found = {
        on: np.concatenate([y for (y,) in program.stream(on).run([[x.numpy()] for (x,) in windows[:3]])], 1)
        for on in ("reference", "host")
    }
    assert found["host"].tobytes() == found["reference"].tobytes()
    with torch.no_grad():
        wanted = module(*signals[0]).numpy()
    assert 10 * np.log10((wanted**2).sum() / ((found["host"] - wanted) ** 2).sum()) > 35


class Kept(nn.Module):
    """An LSTM whose states are buffers, which a run takes and leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)
        self.register_buffer("h", torch.zeros(1, 1, 6))
        self.register_buffer("c", torch.zeros(1, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        y, (h, c) = self.layer(x, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return self.head(y)


@pytest.mark.parametrize("name", ["x", "layer", "head"])
def test_a_sequence_may_have_16_bits_and_the_states_8(name: str) -> None:
    torch.manual_seed(0)
    module, ((signal,),) = Kept().eval(), samples(((1, 40, 4),), 1)
    steps = list(signal.split(1, dim=1))
    program = pillion.compile(
        module, steps[0], target=CORES[0], calibrate=steps, progress=False, int16=[name]
    )
    here, there = program.stream("reference"), program.stream("host")
    for step in steps:
        assert here.step(step)[0].tobytes() == there.step(step)[0].tobytes()


def test_training_with_16_bits_goes_through_the_steps() -> None:
    torch.manual_seed(0)
    x = torch.rand(4, 6, 5)
    trained = pillion.prepare_qat(Remembering(), (x,), target=CORES[0], precision="int16")
    trained(x).square().mean().backward()
    trained.eval()
    program = pillion.compile(trained, (x[:1],), target=CORES[0], progress=False)
    (loop,) = [op for op in program.graph.ops if isinstance(op, Scan)]
    assert {v.dtype for v in loop.body.inputs} == {DType.INT16}
    with torch.no_grad():
        wanted = trained(x[:1]).numpy()
    assert np.abs(program.run(x[:1])[0] - wanted).max() <= 8 * program.graph.ops[-1].operands[0].scale


def test_the_compiler_chooses_tensors_of_a_step() -> None:
    module, program, data = compiled("lstm that remembers", precision="mixed", min_quality="40dB")
    with torch.no_grad():
        signal = sum(float(module(*one).square().sum()) for one in data)
    assert 10 * np.log10(signal / noise(module, program, data)) > 38


def test_states_are_judged_over_the_runs_that_they_go_through() -> None:
    torch.manual_seed(0)
    module, ((signal,),) = Kept().eval(), samples(((1, 96, 4),), 1)
    with torch.no_grad():
        module.layer.bias_ih_l0[6:12] += 4
        wanted = module.head(module.layer(signal)[0]).numpy()
    steps = list(signal.split(1, dim=1))
    options: dict[str, Any] = {"target": CORES[0], "calibrate": steps, "progress": False}
    chosen = pillion.compile(module, steps[0], **options, min_quality="45dB").precision
    assert chosen is not None
    narrow = pillion.compile(module, steps[0], **options).stream("host")
    wide = pillion.compile(module, steps[0], **options, precision="int16").stream("host")
    for stream, said in ((narrow, chosen.before), (wide, chosen.everywhere)):
        found = np.concatenate([y for (y,) in stream.run([[step.numpy()] for step in steps[:32]])], 1)[0]
        real = wanted[0, :32]
        assert abs(said - 10 * np.log10((real**2).sum() / ((found - real) ** 2).sum())) < 2
    assert chosen.judges == "the 32 that calibrated"
