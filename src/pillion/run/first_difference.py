# SPDX-License-Identifier: Apache-2.0
"""Finds the op at which an executor first differs from the reference: its operands are right and its result is wrong.

The graph is cut behind an op, with all live values as outputs; bisection between a right and a wrong cut finds the op. Inside an NPU
segment the search continues with the segment's own graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Array, Value
from pillion.ops import Segment
from pillion.ops.state_io import open_states
from pillion.run.executor import Executor, Outputs, Runnable
from pillion.run.rounding_trace import Index, RoundingStep, rounding_steps

Number = int | float


@dataclass(frozen=True)
class Difference:
    """The first difference of an executor from the reference."""

    executor: str
    sample: int
    op: Op | None
    """The op; None if none was found, for the reason in `unfound`."""
    value: Value
    """The differing value. If it is not a result of the op, the op has overwritten it."""
    index: Index
    wanted: Number
    got: Number
    elements: int
    """The number of differing elements of the value."""
    steps: tuple[RoundingStep, ...] = ()
    """The rounding steps of the reference for the element, if the op is a product."""
    unfound: str = ""


@dataclass(frozen=True)
class FoundDifference:
    """A differing value with its expected and actual elements."""

    value: Value
    wanted: Array
    got: Array

    @property
    def places(self) -> Array:
        """The indices of the differing elements in memory order."""
        return np.flatnonzero((_bytes_of_elements(self.wanted) != _bytes_of_elements(self.got)).any(axis=1))


def bytes_different(some: Outputs, others: Outputs) -> int:
    """Returns the number of differing bytes of two executors' outputs."""
    return sum(
        int(np.count_nonzero(_bytes_of_elements(a) != _bytes_of_elements(b)))
        for a, b in zip(some, others, strict=True)
    )


def _bytes_of_elements(array: Array) -> Array:
    """Returns an array as [elements, bytes per element]."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.itemsize)


UNCHANGED = "each part of the program is right when it is written anew: the file has been changed, or its memory plan is wrong"


STATES = "every step is right from the right states: what it keeps from one to the next is not"


def first_difference(
    program: Runnable, executor: Executor, stream: Sequence[Sequence[Array]], number: int, outputs: Outputs
) -> Difference:
    """Returns the op at which a program first differs from the reference, in this step of a stream or in an
    earlier one with wrong states. Without states, each sample is a step."""
    graph = program.graph
    states = [graph.initial]
    for sample in stream[:number] if graph.states else ():
        states.append(graph.reference_step(states[-1], *sample)[1])
    model_difference = first_differing_value(
        graph.outputs, graph.reference_step(states[-1], *stream[number])[0], outputs
    )
    assert model_difference is not None, "asked for a difference where there is none"
    try:
        if graph.states:
            return _difference_in_steps(
                program, executor, list(zip(stream, states, strict=False)), model_difference
            )
        return _search_first_op(program, executor, stream[number], model_difference)
    except PillionError as error:
        reason = f"no op is named, because a part of the program does not run on its own: {error.what}"
        return _describe_difference(executor.name, None, model_difference, unfound=reason)


def _difference_in_steps(
    program: Runnable,
    executor: Executor,
    steps: Sequence[tuple[Sequence[Array], Outputs]],
    model_difference: FoundDifference,
) -> Difference:
    """Returns the first difference with states as inputs and outputs, in the first step that is wrong
    then."""
    whole_step = program.for_graph(open_states(program.graph))
    for inputs, states in steps:
        sample = (*inputs, *states)
        difference = DifferenceSearch(whole_step, executor, sample).compare(whole_step.graph)
        if difference is not None:
            return _search_first_op(whole_step, executor, sample, difference)
    return _describe_difference(executor.name, None, model_difference, unfound=STATES)


def _search_first_op(
    program: Runnable, executor: Executor, sample: Sequence[Array], model_difference: FoundDifference
) -> Difference:
    graph = program.graph
    search = DifferenceSearch(program, executor, tuple(sample))
    difference, index = search.bisect(
        model_difference, lambda count: graph_prefix(graph, count), len(graph.ops)
    )
    if index == len(graph.ops) - 1 and search.compare(graph_prefix(graph, len(graph.ops))) is None:
        return _describe_difference(executor.name, None, difference, unfound=UNCHANGED)
    op = graph.ops[index]
    if isinstance(op, Segment):
        inside = _difference_in_segment(program, executor, op, _reference_operands(graph, op, sample))
        if inside is not None:
            return inside
    return _describe_difference(
        executor.name, op, difference, _rounding_steps_of(graph, op, difference, sample)
    )


def _difference_in_segment(
    program: Runnable, executor: Executor, op: Segment, inputs: Sequence[Array]
) -> Difference | None:
    """Returns the first difference inside a segment, or None if the segment alone is right."""
    body = op.body
    search = DifferenceSearch(program, executor, tuple(inputs))
    segment_difference = search.compare(segment_prefix(op, len(body.ops)))
    if segment_difference is None:
        return None
    difference, index = search.bisect(
        segment_difference, lambda count: segment_prefix(op, count), len(body.ops)
    )
    inner = body.ops[index]
    return _describe_difference(
        executor.name, inner, difference, _rounding_steps_of(body, inner, difference, inputs)
    )


@dataclass(frozen=True)
class DifferenceSearch:
    """The search for the first wrong op, by running parts of a program."""

    program: Runnable
    executor: Executor
    inputs: tuple[Array, ...]

    def compare(self, graph: Graph) -> FoundDifference | None:
        """Returns the first output of a graph that differs from the reference, or None."""
        outputs = self.executor.run(self.program.for_graph(graph), [self.inputs])[0].outputs
        return first_differing_value(graph.outputs, graph.reference(*self.inputs), outputs)

    def bisect(
        self, whole: FoundDifference, cut: Callable[[int], Graph], count: int
    ) -> tuple[FoundDifference, int]:
        """Returns the difference behind the first wrong op, and this op's index. All `count` ops together are
        wrong."""
        right, wrong, difference = 0, count, whole
        while wrong - right > 1:
            middle = (right + wrong) // 2
            different = self.compare(cut(middle))
            if different is None:
                right = middle
            else:
                wrong, difference = middle, different
        return difference, wrong - 1


def first_differing_value(values: Sequence[Value], wanted: Outputs, got: Outputs) -> FoundDifference | None:
    """Returns the first value whose bytes differ, or None."""
    for value, right, actual in zip(values, wanted, got, strict=True):
        if right.tobytes() != actual.tobytes():
            return FoundDifference(value, right, actual)
    return None


def graph_prefix(graph: Graph, count: int) -> Graph:
    """Returns the graph of the first ops. Its outputs are the results of the last op, then all other live values."""
    ops = graph.ops[:count]
    needed = {v for op in graph.ops[count:] for v in op.operands} | set(graph.sinks)
    alive = [v for op in ops for v in op.results if v in needed]
    return graph.replace(ops=ops, outputs=tuple(dict.fromkeys((*ops[-1].results, *alive))))


def segment_prefix(segment: Segment, count: int) -> Graph:
    """Returns a program of the first ops of a segment."""
    body = graph_prefix(segment.body, count)
    results = tuple(dataclasses.replace(v) for v in body.outputs)
    prefix_op = dataclasses.replace(segment, ys=results, body=body)
    return Graph(body.name, segment.xs, (prefix_op,), results)


def _reference_operands(graph: Graph, op: Op, sample: Sequence[Array]) -> list[Array]:
    """Returns the reference's operands of an op."""
    return op.operand_arrays(graph.reference_values(*sample))


def _rounding_steps_of(
    graph: Graph, op: Op, difference: FoundDifference, sample: Sequence[Array]
) -> tuple[RoundingStep, ...]:
    """Returns the rounding steps of the reference for the first differing element."""
    if difference.value.name not in [v.name for v in op.results]:
        return ()
    return rounding_steps(
        op, graph.arithmetic, _reference_operands(graph, op, sample), _first_index(difference)
    )


def _first_index(difference: FoundDifference) -> Index:
    return tuple(int(i) for i in np.unravel_index(int(difference.places[0]), difference.wanted.shape))


def _describe_difference(
    executor: str,
    op: Op | None,
    difference: FoundDifference,
    steps: tuple[RoundingStep, ...] = (),
    unfound: str = "",
) -> Difference:
    index = _first_index(difference)
    expected, got = difference.wanted[index].item(), difference.got[index].item()
    return Difference(
        executor, 0, op, difference.value, index, expected, got, len(difference.places), steps, unfound
    )
