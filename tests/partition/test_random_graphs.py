# SPDX-License-Identifier: Apache-2.0
"""Random graphs: the placed program answers what its ops answer one by one, each in the arithmetic of its unit; and the
comparison that says so notices faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.graphs import EAGER, EXAMPLES, ON_M33, Growing, graph_of, one_by_one, segments, value
from pillion.compile_options import PlacementOptions
from pillion.devices.neutron import N3_64
from pillion.emitters.tflite import emit
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, PerTensor, constant_value
from pillion.ir.verdict import all_ok
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, Function, Lut, Pad, Segment, Transpose
from pillion.ops.example_values import random_like
from pillion.partition import Placement, ProcessingUnit, partition

STEPS = st.tuples(st.sampled_from(EXAMPLES), st.lists(st.integers(0, 4), min_size=1, max_size=3))


def differing(graph: Graph, placement: Placement, inputs: list[Array]) -> int:
    """Bytes in which the placed program differs from its ops one by one."""
    found = placement.graph.reference(*inputs)
    wanted = one_by_one(graph, placement, inputs)
    return sum(int((f != w).sum()) for f, w in zip(found, wanted, strict=True))


@settings(max_examples=120, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=2, max_size=6),
    kept=st.lists(st.integers(0, 9), max_size=2),
    eager=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_placed_graphs_answer_as_their_ops(
    steps: list[tuple[Op, list[int]]], kept: list[int], eager: bool, seed: int
) -> None:
    growing = Growing()
    for op, choices in steps:
        growing.append(op, choices)
    graph = growing.graph()
    constraints = PlacementOptions(tuple(f"n{number}_*" for number in kept))
    placement = partition(graph, EAGER if eager else N3_64, ON_M33, constraints)
    verify_graph(placement.graph)
    inputs = [random_like(v, seed) for v in graph.inputs]
    assert differing(graph, placement, inputs) == 0
    check_ledger(graph, placement)


def check_ledger(graph: Graph, placement: Placement) -> None:
    """Every op once; segments hold what the ledger says, and only ops that the NPU takes."""
    assert [entry.op for entry in placement.ledger] == list(graph.ops)
    by_number = {n: {op.name for op in s.body} for n, s in enumerate(segments(placement.graph))}
    border = sum(v.type.size_bytes for s in segments(placement.graph) for v in (*s.xs, *s.ys))
    assert placement.ledger.crossing_bytes == border
    for entry in placement.ledger:
        if entry.unit is ProcessingUnit.NPU:
            assert entry.segment is not None
            assert entry.op.name in by_number[entry.segment]
            assert all_ok(entry.verdicts)
    on_cpu = {op for op in placement.graph if not isinstance(op, Segment)}
    assert on_cpu == {entry.op for entry in placement.ledger if entry.unit is ProcessingUnit.CPU}
    assert sum(map(len, by_number.values())) == len(placement.ledger.on_npu)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, min_size=2, max_size=5))
def test_every_segment_has_a_tflite_form(steps: list[tuple[Op, list[int]]]) -> None:
    growing = Growing()
    for op, choices in steps:
        growing.append(op, choices)
    for segment in segments(partition(growing.graph(), EAGER, ON_M33).graph):
        assert emit(segment.body)


# Planted faults


def small_net() -> Graph:
    """Transpose, pad, convolution, activation: one segment, on a square image, so that no shape gives a fault away."""
    rng = np.random.default_rng(5)
    x = value("x", (1, 8, 7, 7))
    transposed = Transpose(x=x, y=value("t", (1, 7, 7, 8)), order=(0, 2, 3, 1))
    pad = Pad(x=transposed.y, y=value("p", (1, 8, 8, 8)), before=(0, 1, 1, 0), after=(0,) * 4, value=3)
    weights = constant_value("w", rng.integers(-127, 128, (5, 3, 3, 8)).astype(np.int8), PerTensor(0.01))
    bias = constant_value("b", rng.integers(-99, 99, 5).astype(np.int32), PerTensor(0.0005))
    y = value("y", (1, 8, 8, 5), PerTensor(0.37, -7))
    conv = Conv2d(x=pad.y, weights=weights, bias=bias, y=y, padding=(1, 1, 1, 1))
    z = value("z", (1, 8, 8, 5), PerTensor(0.1, 3))
    leaky = Lut(
        x=conv.y, y=z, function=Function.LEAKY_RELU, alpha=0.1
    )  # the two arithmetics differ in 35 of 256 levels
    return graph_of([x], [transposed, pad, conv, leaky])


def no_fault(body: Graph) -> Graph:
    return body


def swapped_height_and_width(body: Graph) -> Graph:
    return with_ops(body, Transpose, lambda op: dataclasses.replace(op, order=(0, 3, 2, 1)))


def wrong_zero_point(body: Graph) -> Graph:
    return with_ops(body, Pad, lambda op: dataclasses.replace(op, value=op.value + 1))


def shift_off_by_one(body: Graph) -> Graph:
    """Twice the weights' scale is one more in the shift."""

    def doubled(op: Conv2d) -> Op:
        quant = PerTensor(2 * op.weights.scale)
        return op.substitute({op.weights: constant_value("w", op.weights.constant, quant)})

    return with_ops(body, Conv2d, doubled)


def other_arithmetic(body: Graph) -> Graph:
    return body.replace(arithmetic=Arithmetic.CMSIS_NN)


def with_ops(body: Graph, cls: type[Op], change: Callable[..., Op]) -> Graph:
    return verify_graph(body.replace(ops=tuple(change(op) if isinstance(op, cls) else op for op in body)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "fault", [no_fault, swapped_height_and_width, wrong_zero_point, shift_off_by_one, other_arithmetic]
)
def test_planted_faults_are_noticed(fault: Callable[[Graph], Graph], seed: int) -> None:
    graph = small_net()
    placement = partition(graph, EAGER, ON_M33)
    (segment,) = segments(placement.graph)
    faulty = dataclasses.replace(segment, body=fault(segment.body))
    placed = dataclasses.replace(placement, graph=verify_graph(placement.graph.replace(ops=(faulty,))))
    inputs = [random_like(v, seed) for v in graph.inputs]
    assert (differing(graph, placed, inputs) == 0) == (fault is no_fault)
