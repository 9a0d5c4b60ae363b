# SPDX-License-Identifier: Apache-2.0
"""Sliding windows in place: ops that append new rows to kept ones, and ops that keep the last rows, become moves
or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pillion.emitters.c.actions import MoveRows, ProgramItem
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.ir.op import Op
from pillion.memory import MemoryPlan, SlidingBuffer
from pillion.ops import Concat, Slice

JOIN = Kernel("rows_behind", Concat, calls=lambda op, arithmetic: ())
"""Appends new rows behind the kept ones, by a move if they are not there already."""
KEEP = Kernel("rows_to_front", Slice, calls=lambda op, arithmetic: ())
"""Moves the last rows to the front."""


def choices_without_kernel(sliding: Iterable[SlidingBuffer]) -> dict[Op, KernelChoice]:
    """Returns the choice for the ops of sliding buffers, which call no kernel."""
    chosen: dict[Op, KernelChoice] = {}
    for buffer in sliding:
        chosen |= {
            buffer.join: KernelChoice(buffer.join, JOIN, ()),
            buffer.keep: KernelChoice(buffer.keep, KEEP, ()),
        }
    return chosen


def sliding_buffer_moves(
    sliding: Iterable[SlidingBuffer], memory: MemoryPlan
) -> Iterator[tuple[Op, ProgramItem]]:
    """Yields the moves of sliding buffers, each with its op."""
    for buffer in sliding:
        state = buffer.state.before
        to, now = memory.location(state, buffer.state_bytes), memory.location(buffer.new)
        if to != now:
            yield buffer.join, ProgramItem.at(MoveRows(buffer.new.type.size_bytes), to, now)
        front, last = memory.location(state), memory.location(state, buffer.moved)
        yield buffer.keep, ProgramItem.at(MoveRows(buffer.state_bytes), front, last)
