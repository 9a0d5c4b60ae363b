# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, as users write them: one loop in the program, the same bytes everywhere, near to the float model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import pillion
from fuzz.properties import litert_is_the_reference
from nightly import in_turn
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ops import Scan, flatten_ops, unroll_loops
from pillion.passes import demote_sums, legalize_functions
from pillion.passes import run as run_passes
from pillion.program import Program
from pillion.run.selftest_samples import run_selftest


class Layer(nn.Module):
    """A recurrent layer with all that it gives."""

    def __init__(self, kind: Any, *sizes: int, **options: Any) -> None:
        super().__init__()
        self.layer = kind(*sizes, **options)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        given = () if not state else ((state[0] if len(state) == 1 else state),)
        y, last = self.layer(x, *given)
        return (y, *last) if isinstance(last, tuple) else (y, last)


CASES: dict[str, tuple[Any, tuple[int, ...], dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "lstm": (nn.LSTM, (5, 8), {"batch_first": True}, ((1, 7, 5),)),
    "lstm, states given": (nn.LSTM, (5, 9), {}, ((4, 2, 5), (1, 2, 9), (1, 2, 9))),
    "lstm, both ways, two layers": (
        nn.LSTM,
        (3, 7),
        {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.5},
        ((2, 5, 3),),
    ),
    "lstm, projected": (nn.LSTM, (3, 8), {"proj_size": 5, "bias": False}, ((3, 1, 3),)),
    "gru": (nn.GRU, (17, 16), {}, ((6, 1, 17),)),
    "gru, both ways": (nn.GRU, (4, 5), {"bidirectional": True, "bias": False}, ((5, 3, 4),)),
    "gru, unbatched, state given": (nn.GRU, (4, 5), {}, ((3, 4), (1, 5))),
    "rnn": (nn.RNN, (6, 11), {"batch_first": True}, ((1, 6, 6),)),
    "rnn of relu, one step": (nn.RNN, (6, 11), {"nonlinearity": "relu"}, ((1, 2, 6),)),
}


def samples(shapes: tuple[tuple[int, ...], ...], count: int = 8) -> list[tuple[Tensor, ...]]:
    """Numbers within the ranges of states."""
    torch.manual_seed(0)
    return [tuple(torch.rand(shape) * 2 - 1 for shape in shapes) for _ in range(count)]


def compiled(module: nn.Module, data: list[tuple[Tensor, ...]], target: str = "cortex-m33") -> Program:
    return pillion.compile(module.eval(), data[0], target=target, calibrate=data, progress=False)


def signal_to_noise(module: nn.Module, program: Program, data: list[tuple[Tensor, ...]]) -> float:
    signal = noise = 0.0
    for one in data:
        with torch.no_grad():
            wanted = module(*one)
        for real, found in zip(wanted, program.run(*one), strict=True):
            signal += float((real**2).sum())
            noise += float(((real.numpy() - found) ** 2).sum())
    return 10 * float(np.log10(signal / noise))


@pytest.mark.turns(9)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_layers_are_loops_and_near_to_the_float_model(case: Any) -> None:
    kind, sizes, options, shapes = case
    torch.manual_seed(1)
    module, data = Layer(kind, *sizes, **options), samples(shapes)
    program = compiled(module, data)
    loops = [op for op in program.graph.ops if isinstance(op, Scan)]
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    assert len(loops) == layers
    assert sum(op.reverse for op in loops) == (layers // 2 if options.get("bidirectional") else 0)
    assert signal_to_noise(module, program, data) > 25
    copies = unroll_loops(program.graph)
    assert not any(isinstance(op, Scan) for op in copies.ops)
    for one in data[:2]:
        arrays = [x.numpy() for x in one]
        wanted = program.run(*one)
        again = copies.reference(*arrays)
        on_host = program.run(*one, on="host")
        for real, copy, host in zip(wanted, again, on_host, strict=True):
            assert real.tobytes() == copy.tobytes() == host.tobytes()


@pytest.mark.turns(9)
@pytest.mark.parametrize(("case", "target"), in_turn(CASES, ["cortex-m33", "cortex-m55"]))
@pytest.mark.qemu
def test_layers_answer_the_same_on_boards(case: str, target: str) -> None:
    kind, sizes, options, shapes = CASES[case]
    torch.manual_seed(2)
    data = samples(shapes, 3)
    program = compiled(Layer(kind, *sizes, **options), data, target)
    for wanted, found in zip(
        program.run(*data[0]), program.run(*data[0], on=program.target.core.board), strict=True
    ):
        assert found.tobytes() == wanted.tobytes()


class Keywords(nn.Module):
    """A word spotter: features of sound, a recurrent layer, a decision at the end."""

    def __init__(self, steps: int = 25) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(10)
        self.gru = nn.GRU(10, 24, batch_first=True)
        self.last = nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.last(self.gru(x)[0][:, -1])


class Anomaly(nn.Module):
    """Writes a signal down in a few numbers, and reads them again; what it cannot is an anomaly."""

    def __init__(self, steps: int = 12) -> None:
        super().__init__()
        self.steps = steps
        self.encoder = nn.LSTM(3, 12, batch_first=True)
        self.decoder = nn.LSTM(12, 12, batch_first=True)
        self.out = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        _, (h, _) = self.encoder(x)
        again = h[-1].unsqueeze(1).expand(-1, self.steps, -1)
        return self.out(self.decoder(again)[0])


@pytest.mark.turns(5)
@pytest.mark.parametrize(("net", "target"), in_turn([Keywords, Anomaly], ["cortex-m33", "cortex-m55"]))
@pytest.mark.qemu
def test_nets_answer_the_same_on_boards(net: Any, target: str) -> None:
    torch.manual_seed(0)
    shape = (1, 25, 10) if net is Keywords else (1, 12, 3)
    module, data = net(), samples((shape,))
    program = compiled(module, data, target)
    for one in data[:2]:
        wanted = program.run(*one)[0]
        assert program.run(*one, on=program.target.core.board)[0].tobytes() == wanted.tobytes()
    assert any("linear" in step.choice.kernel.name and target[-2:] for step in program.lowered.steps)
    suffix = {"cortex-m33": "_dsp", "cortex-m55": "_mve"}[target]
    linear = [s.choice.kernel.name for s in program.lowered.steps if s.choice.op.kind == "linear"]
    assert all(name.endswith(suffix) for name in linear)


@pytest.mark.turns(4)
def test_code_does_not_grow_with_the_sequence() -> None:
    texts = {}
    for steps in (10, 100):
        torch.manual_seed(0)
        program = compiled(Anomaly(steps), samples(((1, steps, 3),), 2))
        texts[steps] = str(program.files["model/model.c"])
        assert program.memory.arena_bytes < 2000 + 60 * steps
    short, long = (re.sub(r"-?\d[\d.e-]*", "0", text) for text in texts.values())
    assert [line.strip() for line in short.splitlines()] == [line.strip() for line in long.splitlines()]


def test_other_formats_have_copies_or_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, data = Layer(nn.RNN, 3, 4), samples(((3, 1, 3),), 2)
    program = compiled(module, data)
    again = pillion.compile(str(program.save(tmp_path / "net.pte")), target="cortex-m33")
    for wanted, found in zip(program.run(*data[0]), again.run(*data[0]), strict=True):
        assert wanted.tobytes() == found.tobytes()
    pillion.compile(str(program.save(tmp_path / "net.tflite")), target="cortex-m33")
    monkeypatch.setattr("pillion.ops.scan.MOST_COPIES", 60)
    long = compiled(Layer(nn.RNN, 3, 4), samples(((15, 1, 3),), 1))
    for name in ("long.pte", "long.tflite"):
        with pytest.raises(PillionError, match="which has no loops") as caught:
            long.save(tmp_path / name)
        assert "-o FOLDER" in caught.value.help
        assert not (tmp_path / name).exists()


@pytest.mark.turns(2)
def test_a_device_checks_itself(tmp_path: Path) -> None:
    module, data = Layer(nn.LSTM, 3, 4, bidirectional=True), samples(((5, 1, 3),), 3)
    program = compiled(module, data)
    program.firmware(tmp_path / "out", selftest=[[x.numpy() for x in one] for one in data])
    assert not run_selftest(tmp_path / "out").differs
    main = (tmp_path / "out/selftest/selftest.c").read_text()
    last = len(program.lowered.steps) - 1
    assert re.search(rf"\{{{last}, 0, ", main), "the last op is asked about, by its number"


def test_the_ledger_explains_the_ops_of_a_loop(tmp_path: Path) -> None:
    program = compiled(Layer(nn.GRU, 3, 35), samples(((5, 1, 3),), 2), "cortex-m55+ethos-u55-128")
    entries = {entry.op: entry for entry in program.ledger}
    assert list(entries) == flatten_ops(program.graph.ops)
    loop = next(op for op in program.graph.ops if isinstance(op, Scan))
    assert {entries[op].deciding.rule for op in loop.body.ops} == {"scan.step"}
    assert "runs 5 times" in entries[loop.body.ops[0]].because
    assert program.graph.macs == 5 * loop.body.macs
    assert "count=5" in program.text()
    assert "    linear" in program.text()  # what is inside can be read
    assert program.report(tmp_path / "r.html", measure=False).exists()
    time = program.time("100MHz")
    assert len(time.ops) == len(program.lowered.steps)


class Marks(nn.Module):
    """Marks each step of a signal that never ends."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 8, batch_first=True, **options)
        self.out = nn.Linear(16 if self.layer.bidirectional else 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.layer(x)[0])
        return y


def test_layers_go_on_where_the_run_before_ended() -> None:
    torch.manual_seed(0)
    module, signals = Marks().eval(), samples(((1, 12, 4),), 5)
    windows = [(x[:, at : at + 4],) for (x,) in signals for at in (0, 4, 8)]
    with torch.no_grad():
        wanted = module(*signals[0]).numpy()
    program = pillion.compile(
        module, windows[0], target="cortex-m33", calibrate=windows, stateful=True, progress=False
    )
    assert [state.name for state in program.graph.states] == ["last", "last_1"]
    got = {}
    for on in ("reference", "host"):
        outputs = program.stream(on).run([[one.numpy() for one in window] for window in windows[:3]])
        got[on] = np.concatenate([step[0] for step in outputs], 1)
    assert got["host"].tobytes() == got["reference"].tobytes()
    noise = ((got["host"] - wanted) ** 2).sum()
    assert 10 * np.log10((wanted**2).sum() / noise) > 25
    assert "void marks_reset(void *state)" in str(program.files["model/model.h"])
    alone = program.run(*windows[1])[0]
    assert alone.tobytes() != got["host"][:, 4:8].tobytes(), "a run by itself begins anew"


class OneStep(nn.Module):
    """A cell that is handed its state, and hands it back."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.cell(x, h)
        return self.out(h), h


def test_inputs_are_outputs_of_the_run_before() -> None:
    torch.manual_seed(0)
    module, h = OneStep().eval(), torch.zeros(1, 6)
    signal = [torch.rand(1, 4) * 2 - 1 for _ in range(12)]
    wanted, data = [], []
    with torch.no_grad():
        for x in signal:
            data.append((x, h))
            y, h = module(x, h)
            wanted.append(y.numpy())
    options: dict[str, Any] = {"target": "cortex-m33", "calibrate": data, "progress": False}
    program = pillion.compile(module, data[0], state_pairs={"h": 1}, **options)
    assert [v.name for v in program.graph.inputs] == ["x"]
    assert len(program.graph.outputs) == 1
    found = {
        on: np.concatenate([y for (y,) in program.stream(on).run([[x.numpy()] for x in signal])])
        for on in ("reference", "host")
    }
    assert found["host"].tobytes() == found["reference"].tobytes()
    noise = ((found["host"] - np.concatenate(wanted)) ** 2).sum()
    assert 10 * np.log10((np.concatenate(wanted) ** 2).sum() / noise) > 25
    for pairs in ({"g": 1}, {"h": 2}, {"h": 0}, {"x": 1, "h": 1}):
        with pytest.raises(PillionError, match="makes no state") as caught:
            pillion.compile(module, data[0], state_pairs=pairs, **options)
        assert "x [1, 4]" in caught.value.help


@pytest.mark.parametrize(
    ("options", "words"), [({"bidirectional": True}, "from the end"), (None, "nothing to remember")]
)
def test_models_without_carried_state_refuse_stateful(options: dict[str, Any] | None, words: str) -> None:
    module: nn.Module = nn.Linear(4, 3) if options is None else Marks(**options)
    with pytest.raises(PillionError, match=words) as caught:
        pillion.compile(module.eval(), (torch.randn(1, 3, 4),), target="cortex-m33", stateful=True)
    assert "--stateful" in caught.value.help


def test_litert_runs_the_copies() -> None:
    program = compiled(Layer(nn.GRU, 3, 4, bidirectional=True), samples(((4, 1, 3),), 3))
    litert_is_the_reference(
        run_passes(demote_sums(program.graph), (legalize_functions,)).replace(arithmetic=Arithmetic.TFLITE)
    )


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, torch.tensor([4, 2]), batch_first=True)
        return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


def test_sequences_of_several_lengths_are_refused_with_the_way_out() -> None:
    with pytest.raises(PillionError, match="several lengths") as caught:
        pillion.compile(Packed().eval(), (torch.randn(2, 4, 3),), target="cortex-m33")
    assert "y[i, length - 1]" in caught.value.help


def test_a_layer_over_constants_is_a_constant() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.words = nn.GRU(3, 4), nn.Parameter(torch.randn(5, 1, 3))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.layer(self.words)[1]

    module, data = Fixed(), samples(((1, 1, 4),), 4)
    program = compiled(module, data)
    assert not any(isinstance(op, Scan) for op in program.graph.ops)
    assert signal_to_noise(lambda x: (module(x),), program, data) > 30  # type: ignore[arg-type]  # called as a module


def test_training_with_rounding_goes_through_the_steps() -> None:
    torch.manual_seed(0)
    module = Keywords(6)
    x = torch.randn(6, 6, 10)
    target = (x.mean((1, 2)) > 0).long()
    trained = pillion.prepare_qat(module, (x,), target="cortex-m33")
    optimizer = torch.optim.Adam(trained.parameters(), 0.02)
    losses = []
    for batch in (6, 4, 6, 6):  # of any size
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(trained(x[:batch]), target[:batch])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    trained.eval()
    program = pillion.compile(trained, (x[:1],), target="cortex-m33", progress=False)
    assert any(isinstance(op, Scan) for op in program.graph.ops)
    with torch.no_grad():
        wanted = trained(x[:1]).numpy()
    step = program.graph.ops[-1].operands[0].scale
    assert np.abs(program.run(x[:1])[0] - wanted).max() <= 3 * step
