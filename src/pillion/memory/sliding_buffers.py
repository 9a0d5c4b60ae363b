# SPDX-License-Identifier: Apache-2.0
"""Sliding buffers: states that hold the last rows of a stream, with new rows appended without copies.

A state that is read only to be concatenated with new rows, and whose new value is the end of both, gets room
for all of them. New rows are computed right behind the old ones where possible; after the last read, the rows
to keep move to the front."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Value
from pillion.memory.events import align_up, is_alias
from pillion.memory.live_blocks import LiveBlock
from pillion.ops import Concat, Slice
from pillion.ops.state_io import reshape_origin


@dataclass(frozen=True, eq=False)
class SlidingBuffer:
    """A state, the concat that appends new rows, and the slice that keeps the last ones."""

    state: State
    join: Concat
    keep: Slice

    @property
    def new(self) -> Value:
        """The appended rows."""
        return self.join.xs[1]

    @property
    def state_bytes(self) -> int:
        """The size of the state in bytes, behind which the new rows lie."""
        return self.state.bytes

    @property
    def moved(self) -> int:
        """The distance in bytes by which the kept rows move."""
        return self.join.y.type.size_bytes - self.state.bytes


def sliding_buffers_of(graph: Graph) -> tuple[SlidingBuffer, ...]:
    """Returns all sliding buffers of a graph."""
    return tuple(_sliding_buffer_candidates(graph))


def _sliding_buffer_candidates(graph: Graph) -> Iterator[SlidingBuffer]:
    if not graph.states:
        return
    position = {op: number for number, op in enumerate(graph.ops)}
    lasting = {reshape_origin(graph, v) for v in graph.outputs}
    befores = [state.before for state in graph.states]
    afters = [state.after for state in graph.states]
    for state in graph.states:
        keep, join = graph.producers.get(state.after), graph.only_user(state.before)
        if not (isinstance(keep, Slice) and isinstance(join, Concat) and keep.x is join.y):
            continue
        is_own = befores.count(state.before) == afters.count(state.after) == 1
        is_last = all(
            position[user] < position[keep]
            for user in _readers_through_reshapes(graph, join.y)
            if user is not keep
        )
        if is_own and is_last and not graph.users.get(state.after) and not {join.y, state.after} & lasting:
            buffer = SlidingBuffer(state, join, keep)
            if _is_contiguous(buffer):
                yield buffer


def _is_contiguous(buffer: SlidingBuffer) -> bool:
    """Whether the new rows follow the state contiguously, and the kept rows are the last."""
    join, keep, axis = buffer.join, buffer.keep, buffer.join.axis
    if len(join.xs) != 2 or join.xs[0] is not buffer.state.before or math.prod(join.y.shape[:axis]) != 1:
        return False
    begin = tuple(
        join.y.shape[axis] - buffer.state.before.shape[axis] if a == axis else 0
        for a in range(len(keep.begin))
    )
    return keep.begin == begin and set(keep.step) == {1}


def _readers_through_reshapes(graph: Graph, value: Value) -> Iterator[Op]:
    """Yields the ops that read a value or a reshape of it."""
    for op in graph.users.get(value, ()):
        yield op
        if is_alias(op):
            yield from _readers_through_reshapes(graph, op.results[0])


def merge_sliding_blocks(
    graph: Graph, blocks: MutableMapping[Value, LiveBlock], shifts: MutableMapping[Value, int]
) -> None:
    """Places old and new rows in the state's block."""
    for buffer in sliding_buffers_of(graph):
        state_block = blocks[buffer.state.before]
        state_block.size = align_up(buffer.join.y.type.size_bytes)
        for value in (buffer.join.y, buffer.state.after):
            _move_to_block(blocks, value, state_block)
        if _may_compute_behind_state(graph, blocks, shifts, buffer.new):
            shifts.update(
                (value, buffer.state_bytes) for value in _move_to_block(blocks, buffer.new, state_block)
            )


def _move_to_block(
    blocks: MutableMapping[Value, LiveBlock], value: Value, state_block: LiveBlock
) -> list[Value]:
    """Moves all values of a value's block to another block."""
    block = blocks[value]
    moved = [member for member, its in blocks.items() if its is block]
    blocks.update((member, state_block) for member in moved)
    state_block.last, state_block.overread_bytes = (
        max(state_block.last, block.last),
        max(state_block.overread_bytes, block.overread_bytes),
    )
    return moved


def _may_compute_behind_state(
    graph: Graph, blocks: Mapping[Value, LiveBlock], shifts: Mapping[Value, int], new: Value
) -> bool:
    """Whether new rows, and everything in their block, may be computed behind the state."""
    block = blocks[new]
    members = [value for value, its in blocks.items() if its is block]
    computed = [v for v in members if (op := graph.producers.get(v)) is None or not is_alias(op)]
    is_made = len(computed) == 1 and computed[0] in graph.producers
    is_free = not block.is_state and block.overlaid is None and not any(shifts.get(v) for v in members)
    return is_made and is_free and not any(v in graph.outputs for v in members)
