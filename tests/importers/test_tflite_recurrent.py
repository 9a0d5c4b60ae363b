# SPDX-License-Identifier: Apache-2.0
"""Layers of TFLite files that remember: LiteRT answers what the graph answers, step for step, on every machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recurrent_files import LstmFile, SvdfFile, stream
from streaming_file import InLiteRt

import pillion
from nightly import part_of
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.types import Array, Value
from pillion.ops import Reshape, Scan
from pillion.program import Program
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer
from pillion.targets import find_target
from stateful_graphs import same

BOARDS = (("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547"), ("cortex-m0plus", "host"))


def program_of(raw: bytes, core: str = "cortex-m33") -> Program:
    return Program(read(raw), find_target(core))


def answers(raw: bytes, steps: list[list[Any]]) -> list[tuple[Array, ...]]:
    theirs = InLiteRt(raw)
    return [theirs.step(*x) for x in steps]


def drawn(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(20))
def test_lstms_of_any_size_answer_as_in_litert(seed: int) -> None:
    rng = np.random.default_rng(seed)
    file = LstmFile(
        *(int(n) for n in rng.integers(1, (4, 8, 40, 40))),
        time_major=bool(seed % 2),
        clip=(0.0, 0.5, 2.0)[seed % 3],
        exponent=(-11, -9, -15, -12, -10)[seed % 5],
        zeros=(drawn(rng, -128, 127, 0), drawn(rng, -128, 127, -9)),
        bias=drawn(rng, 0, 3000, 100_000),
        largest=drawn(rng, 0.002, 0.02, 0.3),
        seed=seed,
    )
    raw = file.bytes()
    program = program_of(raw)
    steps = stream(program.graph.inputs[0].shape, 12, seed)
    wanted = answers(raw, steps)
    assert same(program.stream().run(steps), wanted)
    assert same(answers(emit(program.graph), steps), wanted)
    assert len({ys[0].tobytes() for ys in wanted}) > 1 or file.zeros[1] in (-128, 127)


@pytest.mark.parametrize("seed", range(12))
def test_filters_over_time_answer_as_in_litert(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = SvdfFile(
        *(int(n) for n in rng.integers(1, (4, 40, 20, 4, 12))),
        zeros=(drawn(rng, -128, 127, 0), drawn(rng, -128, 127, 0)),
        reach=drawn(rng, 900, 2**15 - 1),
        has_bias=seed % 3 > 0,
        seed=seed,
    ).bytes()
    program = program_of(raw)
    steps = stream(program.graph.inputs[0].shape, 24, seed)
    wanted = answers(raw, steps)
    assert len({ys[0].tobytes() for ys in wanted}) > 3
    assert same(program.stream().run(steps), wanted)
    assert same(answers(emit(program.graph), steps), wanted)


LAYERS = {
    "a step of an lstm": LstmFile(inputs=40, cells=33),
    "an lstm in batches": LstmFile(2, 5, 13, 17, clip=0.5, exponent=-9),
    "filters": SvdfFile(inputs=33, units=17, rank=2, length=9),
}


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize("layer", part_of(LAYERS, 3))
def test_layers_remember_over_hundreds_of_runs_on_every_machine(layer: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(raw := LAYERS[layer].bytes())
    steps = stream(read(raw).inputs[0].shape, 150, 1)
    wanted = answers(raw, steps)
    for core, machine in BOARDS:
        program = pillion.compile(path, target=core)
        assert same(program.stream(machine).run(steps), wanted)
    assert same(program.stream().run(steps), wanted)


def test_states_begin_anew_and_may_be_inputs(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(raw := LstmFile(1, 3, 5, 4).bytes())
    steps = stream((1, 3, 5), 6, 0)
    wanted = answers(raw, steps)
    running = program_of(raw).stream()
    assert same(running.run(steps), wanted)
    running.reset()
    assert same(running.run(steps), wanted)
    program = pillion.compile(path, target="cortex-m33", state="io")
    assert [v.name for v in program.graph.inputs] == ["x", "h", "c"]
    held = [np.full((1, 4), -5, np.int8), np.zeros((1, 4), np.int16)]
    for x, ys in zip(steps, wanted, strict=True):
        y, *held = program.run(*x, *held)
        assert same([(y,)], [ys])


def test_whole_layers_are_written_as_they_came(tmp_path: Path) -> None:
    """Verification has LiteRT run the file as it came, and what is written anew."""
    (tmp_path / "net.tflite").write_bytes(LstmFile(1, 3, 5, 4).bytes())
    program = pillion.compile(tmp_path / "net.tflite", target="cortex-m33")
    program.save(tmp_path / "again.tflite")
    model = read_root_table(tflite.Model, (tmp_path / "again.tflite").read_bytes(), tflite.IDENTIFIER)
    codes = [tflite.OPERATORS[one.builtin_code] for one in model.operator_codes]
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in codes
    assert [t.name for t in model.subgraphs[0].tensors if t.is_variable] == ["h", "c"]
    found = program.verify(1)
    assert found.ok
    assert {"litert", "litert-file", "host"} <= {one.executor for one in found.runs if one.has_run}


def test_halves_of_layers_have_no_form(tmp_path: Path) -> None:
    """What lives between runs is the operator's own there."""
    (tmp_path / "net.tflite").write_bytes(LstmFile(1, 3, 5, 4).bytes())
    program = pillion.compile(tmp_path / "net.tflite", target="cortex-m33", state="io")
    with pytest.raises(PillionError, match="no exact TFLite form") as caught:
        program.save(tmp_path / "again.tflite")
    assert caught.value.help == "without --state io, or write C: -o folder/"
    with pytest.raises(PillionError, match="no exact TFLite form"):
        program.run(*(np.zeros(v.shape, v.dtype.numpy) for v in program.graph.inputs), on="litert")
    found = program.verify(1)
    assert found.ok
    assert {one.executor: one.skipped for one in found.runs}["litert"]


def test_layers_whose_states_others_read_have_no_form() -> None:
    graph = read(SvdfFile().bytes())
    memory = graph.states[0].before
    y = Value("seen", memory.type)
    seen = dataclasses.replace(graph, ops=(*graph.ops, Reshape(x=memory, y=y)), outputs=(*graph.outputs, y))
    with pytest.raises(PillionError, match="no exact TFLite form"):
        emit(seen)
    later = np.ones_like(graph.states[0].initial)
    begun = dataclasses.replace(graph, states=(dataclasses.replace(graph.states[0], initial=later),))
    with pytest.raises(PillionError, match="begin at zero"):
        emit(begun)


def test_a_long_sequence_stands_once() -> None:
    graph = read(LstmFile(1, 300, 9, 8).bytes())
    (scan,) = (op for op in graph.ops if isinstance(op, Scan))
    assert [op.kind for op in scan.body.ops] == ["lstm_cell", "lstm_output"]
    assert [(s.name, s.before.dtype.value, s.bytes) for s in graph.states] == [
        ("h", "int8", 8),
        ("c", "int16", 16),
    ]


def changed(raw: bytes, change: Callable[[tflite.Model], None]) -> bytes:
    model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
    change(model)
    return write_flatbuffer(model, tflite.IDENTIFIER)


def no_intermediates(model: tflite.Model) -> None:
    model.subgraphs[0].operators[0].intermediates = []


def wild_intermediates(model: tflite.Model) -> None:
    model.subgraphs[0].operators[0].intermediates = [0, 0, 0, 0, 9999]


def one_state_for_two(model: tflite.Model) -> None:
    model.subgraphs[0].operators *= 2


def a_sum_of_states(model: tflite.Model) -> None:
    number = tflite.OPERATOR_NUMBERS["ABS"]
    model.operator_codes[0] = tflite.OperatorCode(builtin_code=number, deprecated_builtin_code=number)
    model.subgraphs[0].operators[0].options = None
    model.subgraphs[0].operators[0].options_type = 0


def another_activation(model: tflite.Model) -> None:
    model.subgraphs[0].operators[0].options.fused_activation = 1  # type: ignore[union-attr]  # of such options


def a_cell_of_another_scale(model: tflite.Model) -> None:
    cell = next(t for t in model.subgraphs[0].tensors if t.name == "c")
    cell.quantization = tflite.Quantization(scale=[0.001], zero_point=[0])


def a_cell_that_is_no_state(model: tflite.Model) -> None:
    cell = next(t for t in model.subgraphs[0].tensors if t.name == "c")
    cell.is_variable = False


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (LstmFile(extra=(9, 10, 11)).bytes(), "peephole"),
        (LstmFile(extra=(16, 17)).bytes(), "projection"),
        (LstmFile(extra=(20, 21, 22, 23)).bytes(), "layer norm"),
        (LstmFile(extra=(1,)).bytes(), "coupled gates"),
        (LstmFile(answers=0.01).bytes(), "have one scale"),
        (changed(LstmFile().bytes(), no_intermediates), "have one scale"),
        (changed(LstmFile().bytes(), wild_intermediates), "tensor 9999"),
        (changed(LstmFile().bytes(), one_state_for_two), "one"),
        (changed(LstmFile().bytes(), a_sum_of_states), "live between runs"),
        (changed(LstmFile().bytes(), another_activation), "tanh"),
        (changed(LstmFile().bytes(), a_cell_of_another_scale), "power of two"),
        (changed(LstmFile().bytes(), a_cell_that_is_no_state), "int8"),
        (SvdfFile(activation=0).bytes(), "relu"),
        (changed(SvdfFile().bytes(), a_sum_of_states), "live between runs"),
        (changed(SvdfFile().bytes(), one_state_for_two), "one"),
    ],
)
def test_unsupported_recurrent_layers_are_refused(raw: bytes, words: str) -> None:
    with pytest.raises(PillionError, match=words) as caught:
        read(raw)
    assert caught.value.rule
    assert caught.value.here


@pytest.mark.parametrize("extra", [(9, 10, 11), (16, 17), (20, 21, 22, 23), (1,)])
def test_refused_lstm_features_say_how_to_train_without(extra: tuple[int, ...]) -> None:
    with pytest.raises(PillionError) as caught:
        read(LstmFile(extra=extra).bytes())
    assert caught.value.help.startswith("train it with")
