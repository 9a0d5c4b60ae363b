# SPDX-License-Identifier: Apache-2.0
"""TFLite files read back: the ops of the graph that was written, under names that the text form can hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tflite_file import File, per_channel, weights

import pillion
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.text import to_text
from pillion.ir.types import DType
from pillion.ops import ALL_OPS, parse
from pillion.ops.example_values import random_like, value
from pillion.ops.pool import AvgPool2d
from pillion.schemas.tflite import ElementType


def graph_of(op: Op) -> Graph:
    return Graph("g", op.activations, (op,), op.results, Arithmetic.TFLITE)


def written(op: Op) -> bytes | None:
    try:
        return emit(graph_of(op))
    except PillionError:
        return None


@pytest.mark.turns(4)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_examples_survive_the_round_trip(cls: type[Op]) -> None:
    """The same bytes and types; where one operator says the op, its attributes; and a text that parses."""
    for op in cls.examples():
        raw = written(op)
        if raw is not None:
            require_the_same(op, graph_of(op), read(raw))


def require_the_same(op: Op, graph: Graph, again: Graph) -> None:
    assert again.arithmetic is Arithmetic.TFLITE
    assert [(v.name, v.type) for v in again.inputs] == [(v.name, v.type) for v in graph.inputs]
    assert [(v.name, v.type) for v in again.outputs] == [(v.name, v.type) for v in graph.outputs]
    inputs = [random_like(v) for v in graph.inputs]
    for wanted, found in zip(graph.reference(*inputs), again.reference(*inputs), strict=True):
        assert found.tolist() == wanted.tolist(), op
    assert to_text(parse(to_text(again))) == to_text(again), op
    if len(again.ops) > 1 or type(again.ops[0]) is not type(op):
        return
    for name, held in op.attributes.items():
        if name == "padding":
            assert again.ops[0].attributes[name][:2] == held[:2], op
        elif not isinstance(held, float):
            assert again.ops[0].attributes[name] == held, op


def test_names_are_made_fit_for_the_text() -> None:
    file = File("ABS").input(4, name="serving default:0").output(4, name="a;b (c)")
    graph = read(file.bytes())
    assert [v.name for v in graph.values.values()] == ["serving_default_0", "a;b__c_"]
    assert to_text(parse(to_text(graph))) == to_text(graph)


def test_names_that_are_missing_or_double_are_made_unique() -> None:
    assert list(read(File("ABS").input(4, name="").output(4, name="unnamed").bytes()).values) == [
        "unnamed",
        "unnamed_2",
    ]


def test_files_are_named_after_themselves(tmp_path: Path) -> None:
    path = tmp_path / "my net.tflite"
    path.write_bytes(File("ABS").input(4).output(4).bytes())
    graph = read(path)
    assert graph.name == "my_net"
    assert graph.ops[0].source == "operator 0, ABS"


def test_constants_are_not_copied() -> None:
    raw = (
        File("ADD")
        .input(64)
        .constant(weights(64), ElementType.INT8, quantization=per_channel(1, 0))
        .output(64)
        .bytes()
    )
    held = next(v for v in read(raw).values.values() if v.is_constant).constant
    assert held.dtype == DType.INT8.numpy
    assert np.shares_memory(held, np.frombuffer(raw, np.uint8))


def test_reading_needs_neither_torch_nor_litert() -> None:
    code = (
        "import sys; from pillion.importers.tflite import read; from pillion.errors import PillionError\n"
        "try:\n    read(b'')\nexcept PillionError:\n"
        "    print(sorted({'torch', 'tensorflow', 'ai_edge_litert'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_padding_of_pools_survives_the_round_trip() -> None:
    pool = AvgPool2d(
        x=value("x", (1, 6, 6, 1)),
        y=value("y", (1, 3, 3, 1)),
        kernel=(3, 3),
        stride=(2, 2),
        padding=(0, 0, 1, 1),
    )
    again = read(emit(graph_of(pool))).ops[0]
    assert again.attributes == pool.attributes


def test_a_program_with_long_names_is_loaded_again(tmp_path: Path) -> None:
    file = File("ADD").input(2, 3).input(2, 3).output(2, 3)
    for tensor in file.tensors:
        tensor.name = "n" * 70_000 + tensor.name
    (tmp_path / "net.tflite").write_bytes(file.bytes())
    program = pillion.compile(tmp_path / "net.tflite", target="cortex-m33")
    program.save(tmp_path / "net.pte")
    loaded = pillion.load(tmp_path / "net.pte").graph.inputs
    assert [v.name for v in loaded] == [v.name for v in program.graph.inputs]
