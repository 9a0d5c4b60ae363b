# SPDX-License-Identifier: Apache-2.0
"""Where ops run, and the record of why."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from devices.neutron.rule_cases import conv
from partition.graphs import (
    EAGER,
    ON_M33,
    ON_M55,
    SHAPE,
    add,
    chain,
    graph_of,
    on_cpu,
    on_npu,
    segments,
    value,
)
from pillion.compile_options import PlacementOptions
from pillion.devices.neutron import N3_64
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import (
    ALL_OPS,
    Add,
    AvgPool2d,
    Clamp,
    Concat,
    Dequantize,
    Flip,
    Mean,
    Mul,
    Pad,
    Quantize,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Reshape,
    Segment,
    Slice,
    Sub,
    Transpose,
)
from pillion.ops.example_values import random_like
from pillion.partition import Placement, ProcessingUnit, inline_segments, partition

BYTES = 6 * 4 * 8


def placed(graph: Graph, *keep_on_cpu: str, only_npu: bool = False) -> Placement:
    made = partition(graph, EAGER, ON_M33, PlacementOptions(keep_on_cpu, only_npu))
    verify_graph(made.graph)
    return made


def units(placement: Placement) -> str:
    """n for the NPU, c for the CPU."""
    return "".join(entry.unit.value[0] for entry in placement.ledger)


def bodies(placement: Placement) -> list[list[str]]:
    return [[op.name for op in segment.body] for segment in segments(placement.graph)]


def test_ops_that_touch_form_one_segment() -> None:
    made = placed(chain(on_npu, on_npu, on_npu))
    assert bodies(made) == [["n0", "n1", "n2"]]
    assert [op.kind for op in made.graph] == ["segment"]
    assert made.graph.ops[0].body.arithmetic is Arithmetic.TFLITE  # type: ignore[attr-defined]  # a segment
    assert made.graph.arithmetic is Arithmetic.CMSIS_NN


def test_a_cpu_op_cuts_a_chain() -> None:
    made = placed(chain(on_npu, on_cpu, on_npu, on_npu))
    assert [op.kind for op in made.graph] == ["segment", "lut", "segment"]
    assert bodies(made) == [["n0"], ["n2", "n3"]]


def test_a_diamond_with_a_cpu_op_in_one_arm() -> None:
    """The lower corner must not join the segment of the upper one: that would wait for itself."""
    x = value("x")
    top = on_npu(x, "top")
    left, right = on_cpu(top.results[0], "left"), on_npu(top.results[0], "right")
    bottom = add(left.results[0], right.results[0], "bottom")
    made = placed(graph_of([x], [top, left, right, bottom]))
    assert bodies(made) == [["top", "right"], ["bottom"]]
    assert [op.kind for op in made.graph] == ["segment", "lut", "segment"]


def test_a_long_way_round_through_the_cpu() -> None:
    """A path that leaves twice and comes back twice; the direct path from the first op to the last stays cut."""
    x = value("x")
    ops = [on_npu(x, "a")]
    for name, make in (("b", on_cpu), ("c", on_npu), ("d", on_cpu)):
        ops.append(make(ops[-1].results[0], name))
    ops.append(add(ops[0].results[0], ops[-1].results[0], "e"))
    assert bodies(placed(graph_of([x], ops))) == [["a"], ["c"], ["e"]]


def test_two_branches_that_only_share_their_input_run_together() -> None:
    x = value("x")
    left, right = on_npu(x, "left"), on_npu(x, "right")
    graph = graph_of([x], [left, right], [left.results[0], right.results[0]])
    assert bodies(placed(graph)) == [["left", "right"]]


# Segments that are not made


def neutral(level: int, scale: float = 0.05) -> Value:
    return constant_value("k", np.full((1,), level, np.int8), PerTensor(scale, 3))


X, Y = value("x"), value("y")
IDLE = [
    Reshape(x=X, y=value("y", (6, 32))),
    Transpose(x=X, y=value("y", (1, 4, 6, 8)), order=(0, 2, 1, 3)),
    Slice(x=X, y=value("y", (1, 3, 4, 8)), begin=(0, 1, 0, 0), step=(1, 1, 1, 1)),
    Concat(xs=(X,), y=Y, axis=3),
    Pad(x=X, y=Y, before=(0,) * 4, after=(0,) * 4),
    Mean(x=X, y=Y, axes=(0,), keepdims=True),
    Add(a=X, b=neutral(3), y=Y),
    Add(a=neutral(3), b=X, y=Y),
    Sub(a=X, b=neutral(3), y=Y),
    Mul(a=X, b=neutral(4, 1.0), y=Y),
    Mul(a=neutral(4, 1.0), b=X, y=Y),
]


@pytest.mark.parametrize("op", IDLE, ids=lambda op: op.kind)
def test_segments_of_moves_alone_stay_on_the_core(op: Op) -> None:
    made = placed(graph_of([X], [op]))
    (entry,) = made.ledger
    assert (entry.unit, entry.deciding.rule) == (ProcessingUnit.CPU, "segment.work")
    assert entry.deciding.got == op.kind


@pytest.mark.parametrize(
    "op",
    [
        Concat(xs=(X, X), y=value("y", (1, 6, 4, 16)), axis=3),
        Pad(x=X, y=value("y", (1, 7, 4, 8)), before=(0, 1, 0, 0), after=(0,) * 4, value=3),
        Mean(x=X, y=value("y", (1, 1, 4, 8)), axes=(1,), keepdims=True),
        Add(a=X, b=neutral(4), y=Y),
        Sub(a=neutral(3), b=X, y=Y),
        Add(a=X, b=neutral(3), y=Y, low=0),
        Add(a=X, b=neutral(3), y=value("y", quant=PerTensor(0.1, 3))),
        Mul(a=X, b=neutral(4, 0.5), y=Y),
    ],
    ids=lambda op: op.kind,
)
def test_ops_that_are_almost_idle_compute(op: Op) -> None:
    assert units(placed(graph_of([X], [op]))) == "n"


OTHER_SCALE = value("y", quant=PerTensor(0.1, 3))


@pytest.mark.parametrize(
    ("idle", "busy"),
    [
        (cls(x=X, y=Y, axes=(0,), keepdims=True), cls(x=X, y=OTHER_SCALE, axes=(0,), keepdims=True))
        for cls in (Mean, ReduceSum, ReduceMax, ReduceMin)
    ]
    + [
        (Add(a=X, b=neutral(3), y=Y), Add(a=X, b=neutral(3), y=OTHER_SCALE)),
        (Sub(a=X, b=neutral(3), y=Y), Sub(a=X, b=neutral(3), y=OTHER_SCALE)),
        (Mul(a=X, b=neutral(4, 1.0), y=Y), Mul(a=X, b=neutral(4, 1.0), y=OTHER_SCALE)),
    ],
    ids=lambda op: op.kind,
)
def test_rescaling_ops_are_not_removed(idle: Op, busy: Op) -> None:
    assert N3_64.removes(idle)
    assert not N3_64.removes(busy)


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_identities_return_their_operands_bytes(cls: type[Op]) -> None:
    """Of whom the result has bytes that no operand has, or more of them, is not idle."""
    for op in cls.examples():
        operands = [v.constant if v.is_constant else random_like(v) for v in op.operands]
        found = (
            Counter(op.reference(Arithmetic.TFLITE, *operands).ravel().tolist())
            if N3_64.removes(op)
            else Counter()
        )
        given = Counter(np.concatenate([x.ravel() for x in operands]).tolist())
        assert found <= given


def test_moves_join_the_segment_of_a_computing_neighbour() -> None:
    x = value("x")
    flat = Reshape(x=x, y=value("flat", (1, 6 * 4 * 8)))
    assert units(placed(graph_of([x], [flat, on_npu(flat.y, "n")]))) == "nn"


@pytest.mark.parametrize(
    ("zero_point", "low", "unit", "rule"),
    [
        (-128, -128, ProcessingUnit.CPU, "clamp.bounds"),
        (-127, -127, ProcessingUnit.NPU, "segment.cost"),
        (126, 126, ProcessingUnit.NPU, "segment.cost"),
        (127, 127, ProcessingUnit.CPU, "clamp.bounds"),
    ],
)
def test_a_relu_that_quantization_erased_stays(
    zero_point: int, low: int, unit: ProcessingUnit, rule: str
) -> None:
    """Where zero is the smallest level nothing lies below it, and the converter would be left with nothing."""
    quant = PerTensor(0.1, zero_point)
    x = value("x", quant=quant)
    (entry,) = placed(graph_of([x], [Clamp(x=x, y=value("y", quant=quant), low=low)])).ledger
    assert (entry.unit, entry.deciding.rule) == (unit, rule)


def test_cost_decides() -> None:
    """A few elements are faster where they are; a convolution pays for its way."""
    x = value("x", (1, 3, 1, 2))
    (tiny,) = partition(graph_of([x], [on_npu(x, "tiny")]), N3_64, ON_M33).ledger
    assert (tiny.unit, tiny.deciding.rule, tiny.deciding.ok) == (ProcessingUnit.CPU, "segment.cost", False)
    assert "estimated" in tiny.deciding.wanted
    assert "estimated" in tiny.deciding.got
    large = conv((1, 33, 31, 16))
    (entry,) = partition(graph_of(large.activations, [large]), N3_64, ON_M33).ledger
    assert (entry.unit, entry.deciding.rule, entry.deciding.ok) == (ProcessingUnit.NPU, "segment.cost", True)
    assert 0 < entry.npu_cycles < entry.cpu_cycles


def test_bytes_across_the_border_cost_where_they_are_copied() -> None:
    """Four in a cycle, for what others still read: all else lies in the NPU's workspace, or is read where it is."""
    x = value("x")
    first, second = on_npu(x, "n0"), on_cpu(x, "n1")
    graph = graph_of([x], [first, second], [first.results[0], second.results[0]])
    for npu, got in ((EAGER, 0), (dataclasses.replace(EAGER, has_workspace=True), BYTES // 4)):
        verdict = partition(graph, npu, ON_M33).ledger.entries[0].verdicts[-1]
        assert verdict.got == f"{got} (estimated)"
    in_workspace = partition(chain(on_npu), dataclasses.replace(EAGER, has_workspace=True), ON_M33)
    assert in_workspace.ledger.entries[0].verdicts[-1].got == "0 (estimated)"


def test_the_cost_of_a_segment_is_that_of_all_its_parts() -> None:
    """Starting the NPU once, and each op."""
    priced = dataclasses.replace(EAGER, dispatch_cycles=7, estimate=lambda op: 100 + int(op.name[1:]))
    (verdict, *_) = {
        entry.verdicts[-1] for entry in partition(chain(on_npu, on_npu, on_npu), priced, ON_M33).ledger
    }
    assert verdict.got == f"{7 + 100 + 101 + 102:,} (estimated)"
    on_the_cpu = sum(
        entry.cpu_cycles for entry in partition(chain(on_npu, on_npu, on_npu), priced, ON_M33).ledger
    )
    assert verdict.wanted == f"less than {on_the_cpu:,} cycles (estimated on the CPU)"


def test_a_dispatch_that_costs_more_than_it_saves() -> None:
    graph = chain(on_npu)
    costs = [
        partition(graph, dataclasses.replace(EAGER, dispatch_cycles=c), ON_M33).ledger.on_npu
        for c in (0, 10**6)
    ]
    assert [len(entries) for entries in costs] == [1, 0]


def test_a_segment_that_is_worth_it_stays_where_another_is_not() -> None:
    dear = dataclasses.replace(EAGER, estimate=lambda op: 10**9 if op.name == "n0" else 0)
    made = partition(chain(on_npu, on_cpu, on_npu), dear, ON_M33)
    assert units(made) == "ccn"
    assert [entry.deciding.rule for entry in made.ledger] == ["segment.cost", "lut.function", "segment.cost"]


# PlacementOptions


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        ((), "nnn"),
        (("n1",), "ncn"),
        (("n[01]",), "ccn"),
        (("*",), "ccc"),
        (("lut",), "ccc"),
        (("l?t",), "ccc"),
        (("conv*", "n2"), "nnc"),
        (("n",), "nnn"),
    ],
)
def test_ops_that_the_user_keeps_on_the_cpu(patterns: tuple[str, ...], wanted: str) -> None:
    made = placed(chain(on_npu, on_npu, on_npu), *patterns)
    assert units(made) == wanted
    for entry in made.ledger:
        if entry.unit is ProcessingUnit.CPU:
            assert (entry.deciding.rule, entry.flip) == ("user.keep_on_cpu", "leave out --keep-on-cpu")
            assert entry.deciding.got in patterns


def test_names_are_matched_whole() -> None:
    """`n1` keeps n1, not n10."""
    made = placed(chain(*[on_npu] * 11), "n1")
    assert units(made) == "nc" + "n" * 9


def with_borders(*makers: object) -> Graph:
    """Float at both ends."""
    inner = chain(*makers)  # type: ignore[arg-type]  # makers of any op
    first, last = inner.inputs[0], inner.outputs[0]
    x, y = (Value(name, TensorType(SHAPE, DType.FLOAT32)) for name in ("real_x", "real_y"))
    return graph_of([x], [Quantize(x=x, y=first), *inner.ops, Dequantize(x=last, y=y)])


def test_only_npu_lists_the_refused_ops() -> None:
    with pytest.raises(PillionError, match="2 of 6 ops cannot run on the NPU") as caught:
        placed(with_borders(on_npu, on_cpu, on_npu, on_cpu), only_npu=True)
    assert caught.value.rule.startswith("--only-npu")
    lines = caught.value.here.splitlines()
    assert [line.split(":")[0] for line in lines] == ["lut n1 (model.py", "lut n3 (model.py"]
    assert all("lut.function: wants one of abs" in line and "got gelu" in line for line in lines)
    assert "--only-npu" in caught.value.help


def test_only_npu_allows_the_borders() -> None:
    made = placed(with_borders(on_npu, on_npu), only_npu=True)
    assert [op.kind for op in made.graph] == ["quantize", "segment", "dequantize"]


def test_only_npu_allows_moves_on_the_core() -> None:
    x, y, z = value("x"), value("y", (1, 4, 8, 6)), value("z", (1, 4, 8, 6))
    moves = [Transpose(x=x, y=y, order=(0, 2, 3, 1)), Flip(x=y, y=z, axes=(1,))]
    made = partition(graph_of([x], moves), N3_64, ON_M55, PlacementOptions(only_npu=True))
    assert units(made) == "cc"
    assert all(not entry.deciding.ok for entry in made.ledger)


def test_prefer_npu_moves_slower_ops() -> None:
    """Each alone is slower there: two crossings for one addition."""
    graph = with_borders(on_cpu, on_npu, on_cpu)
    usual = partition(graph, N3_64, ON_M55)
    assert "n" not in units(usual)
    assert "segment.cost" in {entry.deciding.rule for entry in usual.ledger}
    preferred = partition(graph, N3_64, ON_M55, PlacementOptions(prefer_npu=True))
    assert units(preferred) == "ccncc"
    (entry,) = preferred.ledger.on_npu
    assert entry.because.endswith("rules hold, and segment 0, the NPU is preferred")
    small = partition(with_borders(on_npu), N3_64, ON_M55, PlacementOptions(only_npu=True))
    assert units(small) == "cnc"
    with pytest.raises(PillionError, match="2 of 5 ops cannot run on the NPU"):
        partition(graph, N3_64, ON_M55, PlacementOptions(only_npu=True))


def test_a_segment_without_work_is_not_sent_even_if_all_shall_be() -> None:
    x, y = value("x"), value("y")
    still = graph_of([x], [AvgPool2d(x=x, y=y)])
    assert units(partition(still, N3_64, ON_M55, PlacementOptions(prefer_npu=True))) == "c"


# The ledger


def test_the_ledger_has_every_op_once_and_in_order() -> None:
    graph = with_borders(on_npu, on_cpu, on_npu, on_npu, on_cpu)
    made = placed(graph)
    assert [entry.op for entry in made.ledger] == list(graph.ops)
    on_cpus = [op for op in made.graph if not isinstance(op, Segment)]
    assert len(on_cpus) + sum(len(s.body.ops) for s in segments(made.graph)) == len(graph.ops)
    for entry in made.ledger:
        assert entry.deciding.ok == (entry.unit is ProcessingUnit.NPU)
        assert entry.deciding in entry.verdicts
        assert (entry.segment is None) == (entry.unit is ProcessingUnit.CPU)
        assert entry.as_row()["op"] == entry.op.name
    assert inline_segments(made.graph).ops == graph.ops


def test_segments_are_numbered_in_the_ledger_as_in_the_graph() -> None:
    made = placed(chain(on_npu, on_cpu, on_npu))
    numbers = {entry.op.name: entry.segment for entry in made.ledger}
    assert numbers == {"n0": 0, "n1": None, "n2": 1}
    for number, segment in enumerate(segments(made.graph)):
        assert {numbers[op.name] for op in segment.body} == {number}
    by_segment = {
        number: [entry.op.name for entry in found] for number, found in made.ledger.segments.items()
    }
    assert by_segment == {0: ["n0"], 1: ["n2"]}


def crossing(graph: Graph) -> list[int]:
    made = placed(graph)
    border = sum(v.type.size_bytes for s in segments(made.graph) for v in (*s.xs, *s.ys))
    assert made.ledger.crossing_bytes == border
    return [entry.crossing_bytes // BYTES for entry in made.ledger]


def test_bytes_that_cross_the_border() -> None:
    assert crossing(chain(on_npu)) == [2]
    assert crossing(chain(on_npu, on_npu, on_npu)) == [1, 0, 1]
    assert crossing(chain(on_npu, on_cpu, on_npu)) == [2, 0, 2]
    assert crossing(chain(on_cpu)) == [0]


def test_a_value_crosses_once_however_many_read_it() -> None:
    x = value("x")
    left, right = on_npu(x, "left"), on_npu(x, "right")
    bottom = add(left.results[0], right.results[0], "bottom")
    assert crossing(graph_of([x], [left, right, bottom])) == [1, 0, 1]
    outputs = [left.results[0], bottom.results[0]]
    assert crossing(graph_of([x], [left, right, bottom], outputs)) == [2, 0, 1]


def test_constants_do_not_cross() -> None:
    op = conv((1, 33, 31, 16))
    (entry,) = placed(graph_of(op.activations, [op])).ledger
    assert entry.crossing_bytes == sum(v.type.size_bytes for v in (*op.activations, *op.results))
