# SPDX-License-Identifier: Apache-2.0
"""Compiling takes work in proportion to the model: to its ops, or to the reads of them where layers read all layers before."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from call_counts import assert_grows
from nightly import in_turn
from partition.graphs import ON_M33
from pillion import passes
from pillion.devices.cortex_m import Isa
from pillion.devices.neutron import N3_64
from pillion.emitters.c.lower import lower
from pillion.emitters.c.project import project_files
from pillion.emitters.pte import emit as emit_pte
from pillion.emitters.tflite import emit as emit_tflite
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.memory import OpMemory, plan_memory
from pillion.ops import Add, Clamp, Concat, Dequantize, Function, Lut, Quantize, Requantize, Slice, Transpose
from pillion.partition import partition
from pillion.passes.merge_movement import merge_movement
from pillion.targets import find_target

Q = PerTensor(0.05, 3)
SHAPE = (1, 4, 6, 8)
INWARD, OUTWARD = (0, 2, 3, 1), (0, 3, 1, 2)
Maker = Callable[[int], Graph]


def value(name: str, shape: tuple[int, ...] = SHAPE) -> Value:
    return Value(name, TensorType(shape, DType.INT8, Q))


def chain(count: int, *makers: Callable[[Value, str], Op]) -> Graph:
    """Ops one after another, made by the makers in turn."""
    x = value("x")
    ops: list[Op] = []
    for number, make in zip(range(count), itertools.cycle(makers), strict=False):
        ops.append(make(ops[-1].results[0] if ops else x, f"v{number}"))
    return verify_graph(Graph("g", (x,), tuple(ops), ops[-1].results))


def on_npu(x: Value, name: str) -> Op:
    return Lut(x=x, y=value(name, x.shape), function=Function.HARDSWISH)


def on_cpu(x: Value, name: str) -> Op:
    return Lut(x=x, y=value(name, x.shape), function=Function.GELU)


def clamp(x: Value, name: str) -> Op:
    return Clamp(x=x, y=value(name, x.shape), low=-100, high=99)


def moved(order: tuple[int, ...]) -> Callable[[Value, str], Op]:
    return lambda x, name: Transpose(x=x, y=value(name, tuple(x.shape[a] for a in order)), order=order)


def images(count: int) -> Graph:
    """Each op in an order of axes of its own, as layers of PyTorch come in."""
    return chain(4 * count, moved(INWARD), clamp, moved(OUTWARD), on_npu)


def many_moves(count: int) -> Graph:
    """A move that passes a long row of functions before it meets another."""
    functions = [clamp] * count
    return chain(count + 2, moved(INWARD), *functions, moved(OUTWARD))


def units_in_turn(count: int) -> Graph:
    """Work for the NPU, a little for the CPU, and so on."""
    return chain(8 * count, *[on_npu] * 7, on_cpu)


def one_segment(count: int) -> Graph:
    return chain(count, on_npu)


def spread(count: int) -> Graph:
    """One value that all ops read, whose results are added up."""
    x = value("x")
    readers: list[Op] = [on_npu(x, f"r{i}") for i in range(count)]
    sums: list[Op] = []
    for i, reader in enumerate(readers[1:]):
        before = sums[-1] if sums else readers[0]
        sums.append(Add(a=before.results[0], b=reader.results[0], y=value(f"s{i}")))
    return verify_graph(Graph("g", (x,), (*readers, *sums), sums[-1].results))


def many_outputs(count: int) -> Graph:
    graph = chain(count, on_npu)
    return graph.replace(outputs=tuple(op.results[0] for op in graph.ops))


def dense(count: int) -> Graph:
    """Each op reads all before it: reads grow with the square of ops."""
    known = [value("x", (1, 4))]
    ops: list[Op] = []
    for number in range(count):
        joined = value(f"c{number}", (1, 4 * len(known)))
        ops.append(Concat(xs=tuple(known), y=joined, axis=1))
        ops.append(Requantize(x=joined, y=Value(f"q{number}", joined.type)))
        known.append(value(f"n{number}", (1, 4)))
        ops.append(_first_four(ops[-1].results[0], known[-1]))
    return verify_graph(Graph("g", (known[0],), tuple(ops), ops[-1].results))


def _first_four(x: Value, y: Value) -> Op:
    return Slice(x=x, y=y, begin=(0, 0), step=(1, 1))


def conversions(count: int) -> Graph:
    """As it comes from PyTorch: in float between dequantize and quantize."""
    x = value("x", (1, 8))
    ops: list[Op] = []
    for number in range(count):
        real = Value(f"f{number}", TensorType(x.shape, DType.FLOAT32))
        result = Value(f"g{number}", real.type)
        after = value(f"q{number}", x.shape)
        ops += [
            Dequantize(x=x, y=real),
            Lut(x=real, y=result, function=Function.GELU),
            Quantize(x=result, y=after),
        ]
        x = after
    return verify_graph(Graph("g", ops[0].operands, tuple(ops), (x,)))


GRAPHS: dict[str, tuple[Maker, int, float]] = {
    "images": (images, 40, 2.0),
    "units in turn": (units_in_turn, 20, 2.0),
    "one segment": (one_segment, 120, 2.0),
    "spread": (spread, 40, 2.0),
    "dense": (dense, 16, 4.0),
}
"""Makers, a size, and how much more reads there are at twice the size."""
TFLITE = Arithmetic.TFLITE
STAGES: dict[str, Callable[[Graph], object]] = {
    "verify": verify_graph,
    "passes": passes.run,
    "place": lambda g: partition(g, N3_64, ON_M33),
    "c": lambda g: project_files(lower(g, Isa.MVE), "cortex-m55"),
    "pte": lambda g: emit_pte(g, find_target("cortex-m55").core, "1.4", []),
    "tflite": lambda g: emit_tflite(g.replace(arithmetic=TFLITE)),
}


@pytest.mark.turns(6)
@pytest.mark.parametrize(
    ("kind", "stage"),
    dict.fromkeys([*in_turn(GRAPHS, [*STAGES]), *((k, s) for s, k in in_turn(STAGES, [*GRAPHS]))]),
)
def test_stages(kind: str, stage: str) -> None:
    make, size, factor = GRAPHS[kind]
    all_live_at_once = kind == "spread" and stage in (
        "c",
        "pte",
    )  # and every two of them are kept apart in the arena

    def action(size: int) -> Callable[[], object]:
        graph = make(size)
        return lambda: STAGES[stage](graph)

    assert_grows(action, size, 4.0 if all_live_at_once else factor)


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("make", "size"), [(conversions, 60), (many_outputs, 60), (images, 60), (many_moves, 60)]
)
def test_passes(make: Maker, size: int) -> None:
    def action(size: int) -> Callable[[], object]:
        graph = make(size)
        return lambda: passes.run(graph)

    assert_grows(action, size)


def test_movement_is_merged_in_one_walk() -> None:
    assert len(merge_movement(images(50)).ops) == 100

    def action(size: int) -> Callable[[], object]:
        graph = images(size)
        return lambda: merge_movement(graph)

    assert_grows(action, 50)


@pytest.mark.parametrize("make", [images, one_segment, spread])
def test_memory(make: Maker) -> None:
    """Of `spread`, whose results are all live at once, every pair is compared."""

    def action(size: int) -> Callable[[], object]:
        graph = make(size)
        needs = {op: OpMemory() for op in graph.ops}
        return lambda: plan_memory(graph, needs)

    assert_grows(action, 60, 4.0 if make is spread else 2.0)


def test_fresh_names() -> None:
    def action(size: int) -> Callable[[], object]:
        names = UniqueNames()
        return lambda: [names.fresh("same") for _ in range(size)]

    assert_grows(action, 200)
    names = UniqueNames(["a", "a_2"])
    assert [names.fresh("a") for _ in range(2)] == ["a_3", "a_4"]
    assert names.fresh("a_3") == "a_3_2"
