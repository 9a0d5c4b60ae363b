# SPDX-License-Identifier: Apache-2.0
"""Variables of TFLite files are states: read, run for hundreds of steps, and written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streaming_file import InLiteRt, StreamingFile, wake_word

import pillion
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.text import to_text
from pillion.ir.types import Array
from pillion.program import Program
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer
from pillion.targets import find_target
from stateful_graphs import same

STEPS = 520
BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


def spectrum(steps: int, frames: int = 3, features: int = 40) -> list[list[Array]]:
    """Features of a made signal: bands that come and go, then noise, then silence, then the ends of int8."""
    rng = np.random.default_rng(5)
    wave = 127 * np.sin(np.arange(steps * frames)[:, None] * 0.07 + np.arange(features) * 0.4)
    wave[steps : 2 * steps] = rng.integers(-128, 128, (steps, features))
    wave[2 * steps : 2 * steps + 30] = -128
    wave[-30:] = rng.choice([-128, 127], (30, features))
    made = wave.clip(-128, 127).astype(np.int8).reshape(steps, 1, frames, features)
    return [[one] for one in made]


@pytest.mark.qemu
@pytest.mark.nightly
def test_a_wake_word_net_is_the_same_over_hundreds_of_steps(tmp_path: Path) -> None:
    """The file as it came in LiteRT, the reference, C on this computer and on two boards, and LiteRT with what is written again."""
    raw = wake_word()
    (tmp_path / "wake.tflite").write_bytes(raw)
    steps = spectrum(STEPS)
    theirs = InLiteRt(raw)
    wanted = [theirs.step(*x) for x in steps]
    assert len({y.tobytes() for ys in wanted for y in ys}) > 60
    for target, board in BOARDS.items():
        program = pillion.compile(str(tmp_path / "wake.tflite"), target=target)
        assert [state.name for state in program.graph.states] == [
            "stream",
            "stream_1",
            "stream_2",
            "stream_3",
        ]
        assert program.memory.state_bytes == 80 + 96 + 8 * 17 + 8 + 80
        assert not [s for s in program.lowered.steps if "kept" in s.choice.op.name]
        assert same(program.stream("host").run(steps), wanted)
        assert same(program.stream(board).run(steps), wanted)
    assert same(program.stream().run(steps), wanted)
    again = program.save(tmp_path / "again.tflite").read_bytes()
    ours = InLiteRt(again)
    assert same([ours.step(*x) for x in steps], wanted)
    assert same(Program(read(again), program.target).stream().run(steps[:40]), wanted[:40])
    assert same(program.stream("litert").run(steps[:40]), wanted[:40])


def test_written_graphs_are_read_unchanged() -> None:
    graph = read(wake_word())
    once = read(emit(graph))
    assert [s.name for s in once.states] == [s.name for s in graph.states]
    assert to_text(read(emit(once))) == to_text(once)


def test_states_as_inputs_and_outputs(tmp_path: Path) -> None:
    (tmp_path / "wake.tflite").write_bytes(wake_word())
    program = pillion.compile(str(tmp_path / "wake.tflite"), target="cortex-m33", state="io")
    assert [v.name for v in program.graph.outputs[2:]] == [
        f"{n}_next" for n in ("stream", "stream_1", "stream_2", "stream_3")
    ]
    held = read(wake_word()).initial
    theirs = InLiteRt(wake_word())
    for x in spectrum(20):
        *outputs, a, b, c, d = program.run(*x, *held)
        held = a, b, c, d
        assert same([outputs], [theirs.step(*x)])


def counter(change: Callable[[StreamingFile, int, int], None]) -> bytes:
    """A file with one variable of five elements; `change` adds the operators that use it."""
    file = StreamingFile()
    x = file.main.quantized((1, 5), 0.1, 3, name="x")
    handle = file.variable("sum", np.int8([[9, -9, 0, 100, -100]]), 0.1, 3)
    file.main.graph.inputs = [x]
    change(file, x, handle)
    return file.bytes()


def five(file: StreamingFile, scale: float = 0.1) -> int:
    return file.main.quantized((1, 5), scale, 3)


def assigned_before_it_is_read(file: StreamingFile, x: int, handle: int) -> None:
    file.main.assign(handle, x)
    y = file.main.add("ABS", [file.main.read(handle, (1, 5), 0.1, 3)], [five(file)])
    file.main.graph.outputs = y


def read_twice(file: StreamingFile, x: int, handle: int) -> None:
    first = file.main.read(handle, (1, 5), 0.1, 3)
    total = file.main.add("ADD", [first, x], [five(file)], tflite.AddOptions())
    file.main.assign(handle, total[0])
    second = file.main.read(handle, (1, 5), 0.1, 3)
    twice = file.main.add("ADD", [second, first], [five(file)], tflite.AddOptions())
    file.main.assign(handle, twice[0])
    file.main.graph.outputs = file.main.add("ABS", [second], [five(file)])


def under_two_handles(file: StreamingFile, x: int, handle: int) -> None:
    total = file.main.add(
        "ADD", [file.main.read(handle, (1, 5), 0.1, 3), x], [five(file)], tflite.AddOptions()
    )
    file.main.assign(file.main.handle("sum"), total[0])
    file.main.graph.outputs = file.main.add("ABS", total, [five(file)])


def never_assigned(file: StreamingFile, x: int, handle: int) -> None:
    total = file.main.add(
        "ADD", [file.main.read(handle, (1, 5), 0.1, 3), x], [five(file)], tflite.AddOptions()
    )
    file.main.graph.outputs = total


def the_input_itself(file: StreamingFile, x: int, handle: int) -> None:
    difference = file.main.add(
        "SUB", [x, file.main.read(handle, (1, 5), 0.1, 3)], [five(file)], tflite.SubOptions()
    )
    file.main.assign(handle, x)
    file.main.graph.outputs = difference


@pytest.mark.parametrize(
    ("uses", "states"),
    [
        (assigned_before_it_is_read, 0),
        (read_twice, 1),
        (under_two_handles, 1),
        (never_assigned, 1),
        (the_input_itself, 1),
    ],
)
def test_variables_are_read_in_program_order(
    uses: Callable[[StreamingFile, int, int], None], states: int
) -> None:
    raw = counter(uses)
    graph = read(raw)
    assert len(graph.states) == states
    program, theirs = Program(graph, find_target("cortex-m33")), InLiteRt(raw)
    rng = np.random.default_rng(0)
    steps = [[rng.integers(-128, 128, (1, 5)).astype(np.int8)] for _ in range(20)]
    wanted = [theirs.step(*x) for x in steps]
    assert same(program.stream().run(steps), wanted)
    assert same(program.stream("host").run(steps), wanted)
    ours = InLiteRt(emit(graph))
    assert same([ours.step(*x) for x in steps], wanted)


def test_initial_values_may_be_computed() -> None:
    file = StreamingFile()
    x, handle = file.main.quantized((1, 5), 0.1, 3), file.main.handle("sum")
    halves = tflite.Quantization(scale=[0.05], zero_point=[0])
    first = file.once.constant(np.int8([[9, -9, 0, 100, -100]]), quantization=halves)
    (made,) = file.once.add(
        "QUANTIZE", [first], [file.once.quantized((1, 5), 0.1, 3)], tflite.QuantizeOptions()
    )
    file.once.assign(file.once.handle("sum"), made)
    read_twice(file, x, handle)
    file.main.graph.inputs = [x]
    raw = file.bytes()
    theirs, zeros = InLiteRt(raw), np.zeros((1, 5), np.int8)
    assert same([read(raw).reference(zeros)], [theirs.step(zeros)])


def changed(raw: bytes, change: Callable[[tflite.Model], None]) -> bytes:
    model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
    change(model)
    return write_flatbuffer(model, tflite.IDENTIFIER)


def first(model: tflite.Model, cls: type) -> tflite.Operator:
    """The first operator of the main subgraph with such options."""
    return next(o for o in model.subgraphs[0].operators if isinstance(o.options, cls))


def no_call(model: tflite.Model) -> None:
    del model.subgraphs[0].operators[0]
    del model.subgraphs[1]


def another_name(model: tflite.Model) -> None:
    first(model, tflite.VarHandleOptions).options.shared_name = "other"  # type: ignore[union-attr]  # of such options


def another_scale(model: tflite.Model) -> None:
    number = first(model, tflite.ReadVariableOptions).outputs[0]
    model.subgraphs[0].tensors[number].quantization = tflite.Quantization(scale=[0.2], zero_point=[3])


def another_subgraph(model: tflite.Model) -> None:
    first(model, tflite.CallOnceOptions).options.init_subgraph_index = 7  # type: ignore[union-attr]  # of such options


def itself(model: tflite.Model) -> None:
    first(model, tflite.CallOnceOptions).options.init_subgraph_index = 0  # type: ignore[union-attr]  # of such options


def calls_in_calls(model: tflite.Model) -> None:
    model.subgraphs[1].operators.append(first(model, tflite.CallOnceOptions))


def no_variable(model: tflite.Model) -> None:
    first(model, tflite.ReadVariableOptions).inputs = [0]


def too_many(model: tflite.Model) -> None:
    first(model, tflite.ReadVariableOptions).inputs *= 2


def one_more(model: tflite.Model) -> None:
    model.subgraphs.append(tflite.SubGraph(name="body"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_call, "before anything was written"),
        (another_name, "before anything was written"),
        (another_scale, "several types"),
        (another_subgraph, "2 subgraphs"),
        (itself, "2 subgraphs"),
        (calls_in_calls, "calls another one"),
        (no_variable, "takes a variable"),
        (too_many, "2 operands"),
        (one_more, "3 subgraphs"),
    ],
)
def test_invalid_variables_are_refused(change: Callable[[tflite.Model], None], words: str) -> None:
    with pytest.raises(PillionError, match=words) as caught:
        read(changed(counter(read_twice), change))
    assert caught.value.rule
    assert caught.value.here
    assert caught.value.help
