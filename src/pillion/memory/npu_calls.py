# SPDX-License-Identifier: Apache-2.0
"""Finds the core's ops that run while the NPU runs a segment: the ops behind it, up to the first that must wait for
it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.sliding_buffers import sliding_buffers_of
from pillion.ops import Segment
from pillion.ops.state_io import reshape_origin


class NpuCalls(Enum):
    """How the core calls the NPU."""

    BLOCKING = "one function runs a segment"
    IN_STEPS = "a segment is started and awaited, and nothing runs in between"
    OVERLAPPED = "a segment is started and awaited, and the core works in between"


def overlapped_ops(graph: Graph, calls: NpuCalls = NpuCalls.OVERLAPPED) -> dict[Op, int]:
    """Returns, for each segment, the number of ops directly behind it that run while the NPU runs it. The next op
    reads a result, overwrites a state that the segment reads, or is a segment: there is one NPU."""
    writers = state_writers(graph)
    return {
        op: _count_overlapped(graph, number, writers) if calls is NpuCalls.OVERLAPPED else 0
        for number, op in enumerate(graph.ops)
        if isinstance(op, Segment)
    }


def _count_overlapped(graph: Graph, number: int, writers: dict[Op, set[Value]]) -> int:
    segment = graph.ops[number]
    results, read = set(segment.results), {reshape_origin(graph, v) for v in segment.activations}
    count = 0
    for op in graph.ops[number + 1 :]:
        if isinstance(op, Segment) or results & set(op.activations) or read & writers.get(op, set()):
            break
        count += 1
    return count


def state_writers(graph: Graph) -> dict[Op, set[Value]]:
    """Returns each op that computes the new value of a state, with the values that lie in the state's memory until
    then."""
    writers: dict[Op, set[Value]] = {}
    sliding = {buffer.state: {buffer.join.y} for buffer in sliding_buffers_of(graph)}
    for state in graph.states:
        maker = graph.producers.get(reshape_origin(graph, state.after))
        if maker is not None:
            writers.setdefault(maker, set()).update({state.before}, sliding.get(state, set()))
    return writers


def resume_points(graph: Graph, calls: NpuCalls) -> Iterator[tuple[Op, int]]:
    """Yields each segment with the index of the op before which the core waits for it."""
    overlapped = overlapped_ops(graph, calls)
    for number, op in enumerate(graph.ops):
        if op in overlapped:
            yield op, number + 1 + overlapped[op]
