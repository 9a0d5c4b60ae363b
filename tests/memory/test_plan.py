# SPDX-License-Identifier: Apache-2.0
"""The arena: nothing that is needed is overwritten, the floor is reached, in-place results lie where they may."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.memory import ALIGNMENT, MemoryPlan, OpMemory, plan_memory
from pillion.ops import Add, Clamp, Reshape


def value(name: str, size: int) -> Value:
    return Value(name, TensorType((size,), DType.INT8, PerTensor(0.1)))


def chain(sizes: list[int]) -> Graph:
    """Ops that each read one value and make the next; the planner looks at sizes and order only."""
    values = [value(f"v{i}", size) for i, size in enumerate(sizes)]
    ops = tuple(Clamp(x=a, y=b) for a, b in itertools.pairwise(values))
    return Graph("chain", (values[0],), ops, (values[-1],))


def needs(graph: Graph, **one: int) -> dict[Op, OpMemory]:
    return {op: OpMemory(**one) for op in graph.ops}


def assert_sound(graph: Graph, plan: MemoryPlan, needs: dict[Op, OpMemory]) -> None:
    """Walks through the program and checks that no live byte is written."""
    last = {v: i for i, op in enumerate(graph.ops) for v in op.activations}
    last.update((v, len(graph.ops)) for v in graph.outputs)
    live = {v for v in graph.inputs}
    for i, op in enumerate(graph.ops):
        written = [(plan.offsets[r], plan.offsets[r] + r.type.size_bytes, r) for r in op.results]
        if op in plan.scratch_offsets:
            start = plan.scratch_offsets[op]
            written.append((start, start + needs[op].scratch_bytes, None))
        may_go = set(needs[op].in_place) | ({op.x} if isinstance(op, Reshape) else set())
        for start, end, made in written:
            assert start >= 0
            assert end <= plan.arena_bytes
            for v in live - (may_go if made is not None else set()):
                inside = plan.offsets[v], plan.offsets[v] + v.type.size_bytes
                assert end <= inside[0] or inside[1] <= start, f"{op.name} overwrites {v.name}"
        live = {v for v in (*live, *op.results) if last.get(v, -1) > i}


@given(st.lists(st.integers(1, 300), min_size=2, max_size=12), st.integers(0, 100))
def test_a_chain_reaches_its_floor(sizes: list[int], scratch: int) -> None:
    graph = chain(sizes)
    plan = plan_memory(graph, needs(graph, scratch_bytes=scratch))
    assert_sound(graph, plan, needs(graph, scratch_bytes=scratch))
    assert plan.activation_bytes == plan.floor_bytes
    aligned = [-(-s // ALIGNMENT) * ALIGNMENT for s in sizes]
    assert plan.floor_bytes == max(a + b for a, b in itertools.pairwise(aligned))


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    """Random programs in which any earlier value of the same size may be read again."""
    size = st.sampled_from([16, 48, 160])
    values = [value("x", draw(size))]
    ops: list[Op] = []
    for i in range(draw(st.integers(1, 14))):
        a = draw(st.sampled_from(values))
        same = [v for v in values if v.shape == a.shape]
        y = value(f"v{i}", a.shape[0])
        kind = draw(st.integers(0, 2))
        b = draw(st.sampled_from(same))
        ops.append(Add(a=a, b=b, y=y) if kind == 0 else Clamp(x=a, y=y) if kind == 1 else Reshape(x=a, y=y))
        values.append(y)
    outputs = tuple(dict.fromkeys(draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=3))))
    return Graph("random", (values[0],), tuple(ops), outputs).without_dead_ops()


@settings(max_examples=150)
@given(programs(), st.booleans(), st.sampled_from([0, 40]))
def test_random_programs_are_sound(graph: Graph, in_place: bool, scratch: int) -> None:
    wanted = {
        op: OpMemory(scratch, 0, () if isinstance(op, Reshape) or not in_place else op.activations)
        for op in graph.ops
    }
    plan = plan_memory(graph, wanted)
    aliases = {v for op in graph.ops if isinstance(op, Reshape) for v in (op.x, op.y)}
    if not aliases:  # two names of one buffer are checked by running programs, in tests/emitters
        assert_sound(graph, plan, wanted)
    assert plan.arena_bytes % ALIGNMENT == 0
    assert all(offset % ALIGNMENT == 0 for offset in plan.offsets.values())


def test_results_in_place_lower_the_floor() -> None:
    graph = chain([160, 160, 160])
    wanted = {op: OpMemory(in_place=op.activations) for op in graph.ops}
    plan = plan_memory(graph, wanted)
    assert plan.floor_bytes == plan.activation_bytes == 160
    assert len(set(plan.offsets.values())) == 1


def test_a_value_that_is_read_later_is_not_overwritten_in_place() -> None:
    x, y, z = value("x", 64), value("y", 64), value("z", 64)
    graph = Graph("g", (x,), (Clamp(x=x, y=y), Add(a=x, b=y, y=z)), (z,))
    plan = plan_memory(graph, {op: OpMemory(in_place=op.activations) for op in graph.ops})
    assert plan.offsets[x] != plan.offsets[y]


def test_an_input_is_overwritten_once_it_is_dead() -> None:
    graph = chain([64, 16, 64])
    plan = plan_memory(graph, needs(graph))
    assert plan.arena_bytes == 80


@settings(max_examples=150)
@given(programs(), st.data())
def test_the_arena_contains_overread_bytes(graph: Graph, data: st.DataObject) -> None:
    """Whoever reads an operand, first or last, and wherever the operand lies; and no byte more is asked for."""
    behind = {op: data.draw(st.sampled_from([0, 1, 15, 16, 200])) for op in graph.ops}
    plan = plan_memory(graph, {op: OpMemory(overread_bytes=count) for op, count in behind.items()})
    ends = [
        plan.offsets[v] + v.type.size_bytes + behind[op]
        for op in graph.ops
        for v in op.activations
        if behind[op]
    ]
    without = plan_memory(graph, needs(graph)).arena_bytes
    assert plan.arena_bytes == max([without, *(-(-end // ALIGNMENT) * ALIGNMENT for end in ends)])


@given(st.lists(st.sampled_from([16, 48, 160]), min_size=2, max_size=8))
def test_a_result_lies_on_its_operand_where_it_fits_only(sizes: list[int]) -> None:
    """A kernel writes a larger result over what it has not read yet."""
    graph = chain(sizes)
    wanted = {op: OpMemory(in_place=op.activations) for op in graph.ops}
    plan = plan_memory(graph, wanted)
    for op in graph.ops:
        (x,), (y,) = op.activations, op.results
        if y.type.size_bytes > x.type.size_bytes:
            first, second = sorted((x, y), key=lambda v: plan.offsets[v])
            assert plan.offsets[first] + first.type.size_bytes <= plan.offsets[second]
    shrinking = sizes == sorted(sizes, reverse=True)
    assert not shrinking or plan.activation_bytes == sizes[0]


@pytest.mark.turns(3)
@pytest.mark.slow
def test_hundreds_of_live_inputs_are_planned_in_seconds() -> None:
    """They go one by one and results of other sizes come: the floor is not reached, so all tries are made."""
    sizes = [16 * (1 + number * 7 % 23) for number in range(250)]
    inputs = [value(f"x{number}", size) for number, size in enumerate(sizes)]
    results = [value(f"y{number}", size + 16) for number, size in enumerate(reversed(sizes))]
    ops = tuple(Clamp(x=x, y=y) for x, y in zip(inputs, results, strict=True))
    graph = Graph("wide", tuple(inputs), ops, tuple(results))
    start = time.process_time()
    plan = plan_memory(graph, needs(graph, scratch_bytes=48))
    assert time.process_time() - start < 10
    assert_sound(graph, plan, needs(graph, scratch_bytes=48))
    assert plan.floor_bytes < plan.activation_bytes < 1.2 * plan.floor_bytes


@given(programs())
def test_ops_without_scratch_get_none(graph: Graph) -> None:
    """As long as nothing is said of an op, it needs nothing beside its operands and results."""
    plan = plan_memory(graph, {op: OpMemory() for op in graph.ops})
    assert (dict(plan.scratch_offsets), plan.scratch_bytes) == ({}, 0)
    first = graph.ops[0]
    plan = plan_memory(graph, {op: OpMemory(scratch_bytes=int(op is first)) for op in graph.ops})
    assert list(plan.scratch_offsets) == [first]
    assert plan.scratch_bytes == ALIGNMENT
