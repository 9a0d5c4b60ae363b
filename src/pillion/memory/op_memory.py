# SPDX-License-Identifier: Apache-2.0
"""Memory that ops need in addition to operands and results, as declared by their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pillion.ir.access import ROWS, Span
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.workspace import Workspace
from pillion.memory.events import ALIGNMENT, InnerOpRun
from pillion.memory.schedule import Schedule
from pillion.ops import Scan


@dataclass(frozen=True)
class OpMemory:
    """Memory of one op: the scratch of its kernel."""

    scratch_bytes: int = 0
    overread_bytes: int = 0
    in_place: tuple[Value, ...] = ()
    workspace: Workspace | None = None
    """The scratch, if operands and results have fixed offsets in it."""
    overlapped: int = 0
    """The number of ops behind this one that run while the NPU runs this one."""

    ticks: ClassVar[int] = 1
    """The duration in ticks."""
    steps: ClassVar[int] = 1
    """The number of ops of the program."""

    @property
    def guard_bytes(self) -> int:
        """Bytes that stay free before and behind a workspace. The driver discards the workspace's cache lines, and
        the core's results must not share them."""
        return ALIGNMENT if self.workspace is not None and self.overlapped else 0


class InnerMemory:
    """The memory of an op that runs others: they have kernels, and read operands while results are written."""

    ops: tuple[OpMemory | RepeatMemory, ...]
    workspace: ClassVar[Workspace | None] = None
    in_place: ClassVar[tuple[Value, ...]] = ()

    @property
    def overread_bytes(self) -> int:
        """Bytes behind the end of an operand that a kernel may read."""
        return max((need.overread_bytes for need in self.ops), default=0)


@dataclass(frozen=True)
class RegionMemory(InnerMemory):
    """Memory of a region: row buffers and the scratch of its ops."""

    schedule: Schedule
    ops: tuple[OpMemory, ...]
    """One entry per inner op."""
    runs: Mapping[tuple[int, Span], int] = field(default_factory=dict)
    """The scratch of runs that need less than the maximum."""

    def scratch_at(self, number: int) -> dict[int, int]:
        """Returns the live bytes of an op's scratch at each event."""
        most, events = self.ops[number].scratch_bytes, self.schedule.events
        spans = {i: e.span for i, e in enumerate(events) if isinstance(e, InnerOpRun) and e.op == number}
        at = self.schedule.scratch_live_events(number)
        return {i: self.runs.get((number, spans[i]), most) if i in spans else most for i in at}

    def state_bytes(self, has_state: bool) -> int:
        """Returns the size of the state machine of a fed region: it lives from the first to the last row."""
        fed = self.schedule.fed
        if fed is None:
            return 0
        return 4 * region_state_words(fed.shape[0] * fed.shape[ROWS]) + HOST_POINTER_BYTES * has_state

    @property
    def ticks(self) -> int:
        """The duration: one tick per event."""
        return len(self.schedule.events)

    @property
    def steps(self) -> int:
        """The number of ops of the program."""
        return len(self.ops)


HOST_POINTER_BYTES = 8
"""Bytes of a pointer on computers."""


def region_state_words(rows: int) -> int:
    """Returns the words of the state machine of a region that is fed `rows` rows: a function pointer (two words on
    computers), the rows at hand, the rows missing, the resume point at each nesting level, and the loop
    counters."""
    return 5 + DEEPEST_PASSAGES + rows.bit_length()


DEEPEST_PASSAGES = 6
"""The maximum nesting depth of functions that wait for rows."""


@dataclass(frozen=True)
class RepeatMemory(InnerMemory):
    """Memory of a loop: the memory of its ops."""

    op: Scan
    ops: tuple[OpMemory | RepeatMemory, ...]
    """One entry per op of the inner graph."""

    @property
    def ticks(self) -> int:
        """The duration of one step."""
        return 2 + sum(need.ticks for need in self.ops)

    @property
    def steps(self) -> int:
        """The number of ops of the program: the inner ones and the loop."""
        return 1 + sum(need.steps for need in self.ops)

    def ticks_of_steps(self, begin: int) -> Iterator[range]:
        """Yields the ticks of each inner op, then the loop's."""
        for need, (first, end) in zip(self.ops, self.spans(begin), strict=True):
            if isinstance(need, RepeatMemory):
                yield from need.ticks_of_steps(first)
            else:
                yield range(first, end + 1)
        yield range(begin, begin + self.ticks)

    def steps_of_ticks(self, first: int) -> Iterator[tuple[int, int]]:
        """Yields, for each tick, the first and the last op that may run, counted from `first`."""
        last = first + self.steps - 1
        yield first, last
        for need in self.ops:
            yield from need.steps_of_ticks(first) if isinstance(need, RepeatMemory) else ((first, first),)
            first += need.steps
        yield last, last

    def spans(self, begin: int) -> list[tuple[int, int]]:
        """Returns the first and the last tick of each op of the inner graph."""
        spans, at = [], begin + 1
        for need in self.ops:
            spans.append((at, at + need.ticks - 1))
            at += need.ticks
        return spans


AnyMemory = OpMemory | RegionMemory | RepeatMemory
Needs = Mapping[Op, AnyMemory]
"""The memory that each op needs."""
