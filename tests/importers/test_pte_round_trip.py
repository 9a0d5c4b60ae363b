# SPDX-License-Identifier: Apache-2.0
"""Graph → .pte → Graph: by the record, the same graph; by the calls, one that computes the same bytes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from pte_seeds import one_op, segment_graph, small_file

from example_graphs import samples_of
from nightly import in_turn
from pillion.boards.board import find_board
from pillion.cli import request
from pillion.compiler import load
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.segments import host_delegate_payloads
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import ScaledOp
from pillion.ir.text import to_text
from pillion.ir.types import DType, PerTensor, UnknownScale
from pillion.ops import ALL_OPS, Add, AvgPool2d, Concat, MaxPool2d, Mul, Op, Segment
from pillion.ops.example_values import make_op, value
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError

CORE_NAMES = ("cortex-m33", "cortex-m55")


def programs(cls: type[Op], core: str) -> list[tuple[Graph, bytes]]:
    """Those examples of an op that have an ExecuTorch form."""
    made = [(one_op(op), small_file(op, core)) for op in cls.examples()]
    return [(graph, raw) for graph, raw in made if raw]


@pytest.mark.turns(3)
@pytest.mark.parametrize("core", CORE_NAMES)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_the_record_gives_the_same_graph(cls: type[Op], core: str) -> None:
    for graph, raw in programs(cls, core):
        program = read(raw)
        assert (program.core, program.is_recorded) == (core, True)
        assert to_text(program.graph) == to_text(graph)


def alike(graph: Graph, other: Graph) -> bool:
    """Whether both give the same bytes; shapes are those in memory, of as many elements."""
    for sample in samples_of(graph):
        shaped = [x.reshape(v.shape) for x, v in zip(sample, other.inputs, strict=True)]
        for a, b in zip(graph.reference(*sample), other.reference(*shaped), strict=True):
            if not np.array_equal(a.ravel().view(np.uint8), b.ravel().view(np.uint8)):
                return False
    return True


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize("core", CORE_NAMES)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_the_calls_give_the_same_bytes(cls: type[Op], core: str) -> None:
    for graph, raw in programs(cls, core):
        other = by_calls(raw)
        is_left_out = cls.kind == "sub" or any(
            v.dtype is DType.UINT8 for v in (*graph.inputs, *graph.outputs)
        )
        assert is_left_out if other is None else alike(graph, other)


@pytest.mark.parametrize("cls", [Add, Mul], ids=lambda cls: cls.kind)
def test_the_calls_give_the_zero_points(cls: type[Op]) -> None:
    """Which the kernels are given one by one; scales are not there, but their ratios."""
    for graph, raw in programs(cls, "cortex-m55"):
        other = by_calls(raw)
        assert other is not None
        (before, after) = ([op for op in g.ops if op.kind == cls.kind] for g in (graph, other))
        for one, two in zip(before, after, strict=True):
            found = [[v.zero_point for v in (*op.operands, *op.results)] for op in (one, two)]
            assert found[0] == found[1] or found[0] == [*found[1][1::-1], found[1][2]]


def by_calls(raw: bytes) -> Graph | None:
    """None where the calls cannot be read: some differences are sums with a negative multiplier, and ExecuTorch's flow has no images of
    bytes, so that only records tell what they mean."""
    try:
        return graph_of(Container(raw, "g"))
    except (PillionError, MalformedError):
        return None


def test_segments_come_back() -> None:
    graph = segment_graph()
    raw = emit(graph, CORES["cortex-m33"], payloads=host_delegate_payloads(graph))
    assert to_text(read(raw).graph) == to_text(graph)
    body, known = (next(op for op in g.ops if isinstance(op, Segment)).body for g in (read(raw).graph, graph))
    assert to_text(body) == to_text(known)
    assert alike(graph, graph_of(Container(raw, "g")))


@pytest.mark.parametrize("delegate", ["NpuBackend", "another NPU's"])
def test_any_delegate_is_read_that_is_given_a_segment_under_the_mark(delegate: str) -> None:
    graph = segment_graph()
    raw = emit(graph, CORES["cortex-m33"], payloads=host_delegate_payloads(graph), delegate=delegate)
    by_its_calls = graph_of(Container(raw, "g"))
    assert alike(graph, by_its_calls)
    assert [op.device for op in by_its_calls.ops if isinstance(op, Segment)] == [delegate]
    again = emit(by_its_calls, CORES["cortex-m33"], payloads=host_delegate_payloads(by_its_calls))
    assert [one.id for one in Container(again, "g").plan.delegates] == [delegate]


def test_a_delegate_with_code_of_its_own_is_refused_by_name() -> None:
    raw = emit(segment_graph(), CORES["cortex-m33"], payloads=[bytes(64)], delegate="another NPU's")
    with pytest.raises(PillionError, match="delegate another NPU's, with code for the NPU itself") as refusal:
        graph_of(Container(raw, "g"))
    assert "Pillion's mark" in refusal.value.rule


def test_code_for_the_npu_is_no_graph() -> None:
    raw = emit(segment_graph(), CORES["cortex-m33"], payloads=[bytes(64)])
    segment = next(op for op in read(raw).graph.ops if isinstance(op, Segment))
    assert segment.is_closed
    assert read(raw).payloads == (bytes(64),)
    with pytest.raises(PillionError, match="code for the NPU") as refusal:
        read(raw).graph.reference(*samples_of(segment_graph(), 1)[0])
    assert refusal.value.help


def test_a_board_with_another_core_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pte"
    path.write_bytes(
        emit(segment_graph(), CORES["cortex-m33"], payloads=host_delegate_payloads(segment_graph()))
    )
    assert load(path, board=find_board("mps2-an505")).target.core.name == "cortex-m33"
    with pytest.raises(
        PillionError, match="compiled for cortex-m33, and mps3-an547 has a cortex-m55"
    ) as refusal:
        load(path, board=find_board("mps3-an547"))
    assert refusal.value.help == "--on mps2-an505"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="cannot be read"):
        read(tmp_path / "no.pte")


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("target", "name"),
    in_turn(["cortex-m33+int8", "cortex-m55+int8", "imxrt700"], ["deep_autoencoder", "ds_cnn", "resnet8"]),
)
def test_models_come_back(name: str, target: str, tmp_path: Path) -> None:
    """By the record to the letter; compiled again, the same program; run, the same bytes."""
    import pillion
    from pillion import zoo

    module, example = zoo.build(name)
    program = pillion.compile(module, example, target=target, calibrate=zoo.random_inputs(name, 2), name=name)
    path = program.save(tmp_path / "m.pte")
    assert to_text(read(path).graph) == to_text(program.graph)
    again = request.compile_request(request.Request(str(path), target))
    assert to_text(again.graph) == to_text(program.graph)
    inputs = [x.numpy() for x in zoo.random_inputs(name, 1, seed=11)[0]]
    wanted = program.run(*inputs)
    for on in ("reference", "host"):
        for ours, theirs in zip(wanted, load(path).run(*inputs, on=on), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert alike(program.graph, graph_of(Container(path.read_bytes(), "m")))


def test_zero_points_propagate_from_sums_to_their_producers() -> None:
    """Concatenation is given no zero points: those of its operands are those that the sum behind it is given."""
    parts = tuple(value(name, (1, 4), 0.125, 7) for name in "ab")
    whole, other, total = (
        value("whole", (1, 8), 0.125, 7),
        value("other", (1, 8), 0.25, -9),
        value("total", (1, 8), 0.5, 11),
    )
    ops = (Concat(xs=parts, y=whole, axis=1), Add(a=whole, b=other, y=total))
    read_back = by_calls(emit(Graph("g", (*parts, other), ops, (total,)), CORES["cortex-m55"]))
    assert read_back is not None
    assert sorted(v.zero_point for v in read_back.inputs) == [-9, 7, 7]
    assert [v.zero_point for v in read_back.outputs] == [11]


@pytest.mark.parametrize("cls", [MaxPool2d, AvgPool2d], ids=lambda cls: cls.kind)
@pytest.mark.parametrize(
    "padding", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 2), (1, 2, 0, 1), (1, 1, 1, 1)]
)
def test_paddings_that_differ_between_the_sides(cls: type[Op], padding: tuple[int, ...]) -> None:
    """The kernels pad both sides alike: what they cannot say is padded before, or refused."""
    x = value("x", (1, 6, 7, 3), 0.1, 5)
    op = make_op(cls, x, x=x, kernel=(3, 3), stride=(2, 1), padding=padding)
    op = op.substitute({op.results[0]: dataclasses.replace(op.results[0], name="y")})
    raw = small_file(op)
    if cls is AvgPool2d and not raw:
        assert padding != (1, 1, 1, 1)
        return
    read_back = by_calls(raw)
    assert read_back is not None
    assert alike(one_op(op), read_back)


@pytest.mark.parametrize(
    "scales", [(0.1, 0.2, 0.3), (0.3, 0.1, 0.2), (0.2, 0.1, 0.3), (0.7, 0.7, 0.1)], ids=str
)
@pytest.mark.parametrize("cls", [Add, Mul], ids=lambda cls: cls.kind)
def test_multipliers_are_read_as_they_are_said(cls: type[Op], scales: tuple[float, float, float]) -> None:
    """Whatever scales they came from: those of a sum at 0.1, 0.2 and 0.3 could once not be found again."""
    a, b, y = (value(name, (1, 7), s, z) for name, s, z in zip("aby", scales, (3, -9, 5), strict=True))
    op = make_op(cls, y, a=a, b=b)
    assert isinstance(op, ScaledOp)
    read_back = by_calls(small_file(op))
    assert read_back is not None
    (found,) = (op for op in read_back.ops if isinstance(op, ScaledOp))
    assert sorted(map(str, found.explicit)) == sorted(map(str, op.from_scales(Arithmetic.CMSIS_NN)))
    assert all(isinstance(v.type.quant, UnknownScale) for v in (*found.operands, *found.results))
    assert alike(one_op(op), read_back)


def test_contradicting_zero_points_each_hold_for_their_op() -> None:
    """Two sums that give one operand two zero points: each computes with its own."""
    a, b, y, z = (value(name, (1, 7), 0.25, zero) for name, zero in zip("abyz", (3, -9, 5, 7), strict=True))
    first = Add(a=a, b=b, y=y)
    raw = emit(Graph("g", (a, b), (first, Add(a=y, b=b, y=z)), (z,)), CORES["cortex-m55"])
    container = Container(raw, "g")
    call = container.plan.chains[0].instructions[1].instr_args
    assert isinstance(call, pte.KernelCall)
    container.plan.values.append(pte.EValue(val_type=2, val=pte.Int(int_val=6)))
    place = next(i for i in (1, 5) if container.plan.values[call.args[i]].val.int_val == 5)  # type: ignore[union-attr]  # zero points are integers
    call.args[place] = len(container.plan.values) - 1
    other = graph_of(container)
    assert [op.kind for op in other.ops if op.kind != "reshape"] == ["add", "lut", "add"]
    moved = dataclasses.replace(y, name="moved", type=dataclasses.replace(y.type, quant=PerTensor(0.25, 6)))
    wanted = Graph("g", (moved, b), (make_op(Add, z, a=moved, b=b),), (z,))
    wanted = wanted.replace(outputs=wanted.ops[0].results)
    for sample in samples_of(one_op(first)):
        (middle,) = one_op(first).reference(*sample)
        found = other.reference(*(x.reshape(v.shape) for x, v in zip(sample, other.inputs, strict=True)))
        np.testing.assert_array_equal(wanted.reference(middle, sample[1])[0].ravel(), found[0].ravel())
