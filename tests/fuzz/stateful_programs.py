# SPDX-License-Identifier: Apache-2.0
"""A random program that remembers: some of its inputs become states, in all the ways in which a state may be remade."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuzz.choices import Choices, from_seed
from fuzz.memory_walk import check_plan
from pillion import passes
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.emitters.c.lower import lower
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Array, DType, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Clamp, Concat, Slice
from pillion.ops.example_values import random_like
from pillion.ops.state_io import states_as_io
from pillion.partition import partition
from pillion.program import Program
from pillion.run.executor import DEFAULTS, Executor, RunOptions
from pillion.run.executor_list import find_executor
from pillion.run.host_executor import HostExecutor
from pillion.targets import find_target

STEPS = 5
MOST_STATES = 4


def with_states(graph: Graph) -> Graph:
    """The program with inputs and with states; what is random about it follows from the program."""
    choices = from_seed(len(graph.ops) * 131 + sum(v.type.elements for v in graph.inputs))
    names = UniqueNames(graph.values)
    ops, inputs = list(graph.ops), list(graph.inputs)
    states: list[State] = []
    for value in graph.inputs:
        if len(states) == MOST_STATES or not value.type.elements or choices.one_in(3):
            continue
        after = _after(value, graph, ops, inputs, states, names, choices)
        inputs.remove(value)
        initial = random_like(value, len(states)) if choices.one_in(2) else _even(value, choices)
        states.append(State(names.fresh("state"), value, after, initial))
    if not inputs:
        x = Value(
            names.fresh("fresh"),
            TensorType((1, 3), DType.INT8, states[0].before.type.quant if states else None),
        )
        inputs.append(x)
    return verify_graph(graph.replace(inputs=tuple(inputs), ops=tuple(ops), states=tuple(states)))


def _even(value: Value, choices: Choices) -> Array:
    """All elements are one number."""
    return (random_like(value) * 0 + choices.pick((0, 1, 3))).astype(value.dtype.numpy)


def _after(
    before: Value,
    graph: Graph,
    ops: list[Op],
    inputs: list[Value],
    states: Sequence[State],
    names: UniqueNames,
    choices: Choices,
) -> Value:
    """What a state becomes: any value of its type, a constant, a queue with new rows, or a function of what it was."""
    held = [v for v in (*graph.inputs, *(r for op in graph.ops for r in op.results)) if v.type == before.type]
    kind = choices.pick(("any", "queue", "clamped", "constant"))
    if kind == "any" and len(held) > 1:
        return choices.pick(held)
    axis = choices.integer(0, before.type.rank - 1) if before.type.rank else 0
    if kind == "queue" and before.dtype is DType.INT8 and before.type.rank and before.shape[axis] > 1:
        return _queued(before, axis, ops, inputs, names, choices)
    if kind == "constant" and choices.one_in(2):
        return constant_value(names.fresh("fixed"), random_like(before, 7), before.type.quant)
    if before.dtype is not DType.INT8 or not before.is_quantized:
        return before
    y = Value(names.fresh("remade"), before.type)
    low = choices.pick((-128, -100, -5))
    at = choices.pick((0, len(ops)))
    ops.insert(at, Clamp(x=before, y=y, low=low, high=choices.pick((127, 90))))
    return y


def _queued(
    before: Value, axis: int, ops: list[Op], inputs: list[Value], names: UniqueNames, choices: Choices
) -> Value:
    """The last of what was there and of what is new."""
    new = choices.pick((1, 2))
    part, whole = (
        dataclasses.replace(before.type, shape=(*before.shape[:axis], size, *before.shape[axis + 1 :]))
        for size in (new, before.shape[axis] + new)
    )
    x, window, later = (
        Value(names.fresh("new"), part),
        Value(names.fresh("window"), whole),
        Value(names.fresh("later"), before.type),
    )
    inputs.append(x)
    begin = tuple(new if a == axis else 0 for a in range(before.type.rank))
    ops += [
        Concat(xs=(before, x), y=window, axis=axis),
        Slice(x=window, y=later, begin=begin, step=(1,) * before.type.rank),
    ]
    return later


def stream_of(graph: Graph, steps: int = STEPS) -> list[list[Array]]:
    return [
        [random_like(v, 10 * seed + i) for i, v in enumerate(graph.inputs)] for seed in range(1, steps + 1)
    ]


Outputs = Sequence[Sequence[Array]]


def require_equal(wanted: Outputs, got: Outputs, where: str) -> None:
    assert len(wanted) == len(got), where
    for number, (ours, theirs) in enumerate(zip(wanted, got, strict=True)):
        for one, other in zip(ours, theirs, strict=True):
            assert one.tobytes() == other.tobytes(), f"{where}: step {number} differs"


def run(graph: Graph, steps: Sequence[Sequence[Array]]) -> Outputs:
    states, made = graph.initial, []
    for inputs in steps:
        outputs, states = graph.reference_step(states, *inputs)
        made.append(outputs)
    return made


def states_keep_the_meaning(graph: Graph) -> None:
    """In passes, as inputs and outputs, placed on an NPU, and in C on this computer, as a stream and from reset states."""
    from fuzz.properties import text_round_trip
    from partition.graphs import EAGER

    graph = with_states(graph)
    steps = stream_of(graph)
    wanted = run(graph, steps)
    text_round_trip(graph)
    after = passes.run(graph)
    require_equal(wanted, run(after, steps), "passes")
    opened = verify_graph(states_as_io(graph))
    held = graph.initial
    for inputs, outputs in zip(steps, wanted, strict=True):
        made = opened.reference(*inputs, *held)
        held = made[len(graph.outputs) :]
        require_equal([outputs], [made[: len(graph.outputs)]], "as inputs and outputs")
    for isa in Isa:
        check_plan(lower(graph, isa))
    program = Program(graph, find_target("cortex-m3"))
    on(program, HostExecutor(), steps)
    apart = HostExecutor().run(program, steps, DEFAULTS)
    require_equal([graph.reference(*x) for x in steps], [one.outputs for one in apart], "one by one")
    if graph.arithmetic is Arithmetic.CMSIS_NN:
        chip = find_target("imxrt700")
        placed = verify_graph(partition(after, EAGER, core_cycles(chip.core)).graph)
        on(Program(placed, chip), HostExecutor(), steps)


def on(program: Program, executor: Executor, steps: Sequence[Sequence[Array]]) -> None:
    results = executor.run(program, steps, RunOptions(stream=True))
    require_equal(run(program.graph, steps), [one.outputs for one in results], executor.name)


def states_on(name: str, graph: Graph, target: str) -> None:
    """On an executor, for a target."""
    graph = with_states(graph)
    on(Program(graph, find_target(target)), find_executor(name), stream_of(graph))
