# SPDX-License-Identifier: Apache-2.0
"""Loops that run a known number of times: the program's bytes are LiteRT's on the file as it came."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import damaged
from loop_files import STATE, LoopFile, noise
from net_file import answers, litert

import pillion
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ops import Scan
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

LOOPS: dict[str, dict[str, Any]] = {
    "as_keras_writes_it": {},
    "only_the_last": {"writes": "last", "steps": 12, "batch": 3},
    "a_list_that_is_updated": {"writes": "update", "zero": -128},
    "time_behind_the_samples": {"reads": "slice", "batch": 2, "inputs": 7, "zero": 127},
    "an_axis_that_shrinks": {"reads": "strided", "batch": 3, "cells": 9},
    "from_the_end": {"first": 10, "steps": 11, "pace": -1, "condition": "GREATER", "writes": "update"},
    "each_second": {"pace": 2, "first": 1, "steps": 5, "writes": "update"},
    "and_the_last_one": {"condition": "LESS_EQUAL", "steps": 13, "length": 17},
    "a_longer_list": {"writes": "update", "length": 20, "steps": 3},
    "two_states": {"second": True, "steps": 9, "writes": "update"},
    "an_input_of_every_step": {"invariant": True, "second": True},
    "one_step": {"steps": 1},
    "windows": {"reads": "window", "steps": 6, "first": 0, "writes": "last"},
    "many": {"steps": 300, "writes": "update", "cells": 17, "inputs": 3},
}


def made(name: str, seed: int = 0) -> LoopFile:
    file = LoopFile(**{"seed": seed, **LOOPS[name]})
    if file.reads == "window":  # the last window ends where the input does
        file.__class__ = _Longer
    return file


class _Longer(LoopFile):
    """A loop whose input has a row more than it counts."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(self.rows) + 2, self.batch, self.inputs)


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_the_file(name: str) -> None:
    raw = made(name).bytes()
    graph = read(raw)
    assert [op.count for op in graph.ops if isinstance(op, Scan)] == [LOOPS[name].get("steps", 7)]
    interpreter = litert(raw)
    for seed in range(20):
        inputs = [noise(v.shape, seed) for v in graph.inputs]
        for wanted, found in zip(answers(interpreter, inputs), graph.reference(*inputs), strict=True):
            assert (found.shape, found.tobytes()) == (wanted.shape, wanted.tobytes())


def test_a_counter_may_grow_in_any_way() -> None:
    """1, 2, 4 and 8: the counter is multiplied."""
    file = _Longer(first=1, pace=2, steps=4, writes="last")
    file.bytes()
    body = file.body.graph
    place = next(n for n, o in enumerate(body.operators) if o.outputs == body.outputs[:1])
    doubled = body.operators[place]
    file.body.add("MUL", doubled.inputs, doubled.outputs, tflite.MulOptions())
    body.operators[place] = body.operators.pop()
    graph, interpreter = read(file.packed()), litert(file.packed())
    assert [op.count for op in graph.ops if isinstance(op, Scan)] == [4]
    for seed in range(5):
        inputs = [noise(v.shape, seed) for v in graph.inputs]
        for wanted, found in zip(answers(interpreter, inputs), graph.reference(*inputs), strict=True):
            assert (found.shape, found.tobytes()) == (wanted.shape, wanted.tobytes())


@pytest.mark.parametrize("name", ["two_states", "a_longer_list", "windows"])
def test_loops_run_on_all_executors(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.tflite"
    file.write_bytes(made(name, 7).bytes())
    program = pillion.compile(file, target="cortex-m33")
    inputs = [noise(v.shape, 3) for v in program.graph.inputs]
    wanted = [y.tobytes() for y in program.run(*inputs)]
    for place in ("host", "litert", "litert-file"):
        assert [y.tobytes() for y in program.run(*inputs, on=place)] == wanted, place


@pytest.mark.turns(2)
@pytest.mark.qemu
@pytest.mark.parametrize(("core", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")])
def test_loops_run_on_boards(core: str, board: str, tmp_path: Path) -> None:
    file = tmp_path / "loop.tflite"
    file.write_bytes(made("an_input_of_every_step", 2).bytes())
    program = pillion.compile(file, target=core)
    inputs = [noise(v.shape, 2) for v in program.graph.inputs]
    made_there = program.run(*inputs, on=board)
    assert [y.tobytes() for y in made_there] == [y.tobytes() for y in program.run(*inputs)]


def _until_the_input_says(file: LoopFile) -> None:
    """The counter begins with an input."""
    graph = file.file.main.graph
    first = file.file.main.tensor((), type=ElementType.INT32, name="first")
    graph.operators[-1].inputs[0] = first
    graph.inputs = [*graph.inputs, first]


def _for_ever(file: LoopFile) -> None:
    file.cond.graph.operators[-1].inputs = [
        file.cond.constant(np.array(-1, np.int32)),
        file.cond.graph.inputs[0],
    ]


def _a_list_that_is_read(file: LoopFile) -> None:
    """The row is the sum of the new one and an old one."""
    body, listed = file.body, file.body.graph.inputs[1]
    flat = [0] * 3, [1, file.batch, file.cells]
    old, both = (body.quantized((1, file.batch, file.cells), *STATE) for _ in range(2))
    begin, size = (body.constant(np.array(n, np.int32)) for n in flat)
    body.add("SLICE", [listed, begin, size], [old], tflite.SliceOptions())
    update = next(o for o in body.graph.operators if o.inputs[0] == listed and len(o.inputs) == 3)
    body.add("ADD", [old, update.inputs[1]], [both], tflite.AddOptions())
    body.graph.operators.insert(0, body.graph.operators.pop())
    update.inputs[1] = both


def _what_was_there(file: LoopFile) -> None:
    """The state is handed on as it was, by way of another operand."""
    outputs = file.body.graph.outputs
    outputs[2], outputs[3] = outputs[3], file.body.graph.inputs[2]


def _another_body(file: LoopFile) -> None:
    file.file.main.graph.operators[-1].options = tflite.WhileOptions(
        cond_subgraph_index=1, body_subgraph_index=9
    )


REFUSED: list[tuple[Callable[[LoopFile], None], str]] = [
    (_until_the_input_says, "how often a loop runs follows from constants"),
    (_for_ever, "a loop runs at most 65,536 times"),
    (_a_list_that_is_read, "neither lists nor counters"),
    (_what_was_there, "what a step hands on is computed by it"),
    (_another_body, "a model is one subgraph"),
]


@pytest.mark.parametrize(("change", "rule"), REFUSED)
def test_other_loops_are_refused(change: Callable[[LoopFile], None], rule: str) -> None:
    file = LoopFile(writes="update", second=True)
    file.bytes()
    change(file)
    with pytest.raises(PillionError) as caught:
        read(file.packed())
    assert rule in caught.value.rule
    assert caught.value.help


def test_a_loop_that_runs_itself_is_refused() -> None:
    file = LoopFile(writes="update")
    file.bytes()
    main, body = file.file.main.graph, file.body.graph
    body.operators = [*body.operators, main.operators[-1]]
    body.operators[-1] = tflite.Operator(
        opcode_index=main.operators[-1].opcode_index,
        options_type=main.operators[-1].options_type,
        options=main.operators[-1].options,
        inputs=list(body.inputs),
        outputs=list(body.outputs),
    )
    body.operators = body.operators[-1:]
    with pytest.raises(PillionError):
        read(file.packed())


@pytest.mark.slow
@pytest.mark.nightly
def test_damaged_loops_end_in_a_graph_or_one_error() -> None:
    rng, files = random.Random(5), [made(name).bytes() for name in ("two_states", "a_longer_list", "windows")]
    tracemalloc.start()
    refused = 0
    for _ in range(900):
        try:
            read(damaged(rng, rng.choice(files)))
        except PillionError:
            refused += 1
    assert tracemalloc.get_traced_memory()[1] < 64_000_000
    tracemalloc.stop()
    assert refused > 100
