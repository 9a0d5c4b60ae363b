# SPDX-License-Identifier: Apache-2.0
"""What ops need of memory beside their operands and results, as their kernels say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pillion.ir.op import Op
from pillion.ir.rows import ROWS, Span
from pillion.ir.types import Value
from pillion.ir.workspace import Workspace
from pillion.memory.events import Firing
from pillion.memory.schedule import Schedule
from pillion.ops import Repeat


@dataclass(frozen=True)
class OpMemory:
    """The memory that the chosen kernel of an op needs beside its operands and results."""

    scratch_bytes: int = 0
    overread_bytes: int = 0
    in_place: tuple[Value, ...] = ()
    workspace: Workspace | None = None
    """The scratch, where operands and results have fixed places in it."""

    @property
    def ticks(self) -> int:
        """How long it takes."""
        return 1

    @property
    def steps(self) -> int:
        """How many ops of the program it is."""
        return 1


@dataclass(frozen=True)
class RegionMemory:
    """The memory that a region needs beside its operands and results: buffers of some rows, and its ops' scratch."""

    schedule: Schedule
    ops: tuple[OpMemory, ...]
    """For each op of the body."""
    runs: Mapping[tuple[int, Span], int] = field(default_factory=dict)
    """The scratch of runs of ops for some rows, where that is less than the most that they need."""

    def scratch_at(self, number: int) -> dict[int, int]:
        """Gives the bytes in use of an op's scratch, at each event at which something is in it."""
        most, events = self.ops[number].scratch_bytes, self.schedule.events
        spans = {i: e.span for i, e in enumerate(events) if isinstance(e, Firing) and e.op == number}
        at = self.schedule.in_scratch(number)
        return {i: self.runs.get((number, spans[i]), most) if i in spans else most for i in at}

    def state_bytes(self, has_state: bool) -> int:
        """Gives the bytes that say how far a region is that is fed, and where the model's states are if it has some: they are needed from
        the beginning to the last row."""
        fed = self.schedule.fed
        if fed is None:
            return 0
        return 4 * words_of_state(fed.shape[0] * fed.shape[ROWS]) + HOST_POINTER_BYTES * has_state

    @property
    def workspace(self) -> None:
        """None: its ops have kernels."""
        return None

    @property
    def overread_bytes(self) -> int:
        """How far behind the end of an operand of the region some kernel may read."""
        return max((op.overread_bytes for op in self.ops), default=0)

    @property
    def in_place(self) -> tuple[Value, ...]:
        """None: a region's result is begun while its operands are still read."""
        return ()

    @property
    def ticks(self) -> int:
        """How long it takes: a tick for each event."""
        return len(self.schedule.events)

    @property
    def steps(self) -> int:
        """How many ops of the program it is."""
        return len(self.ops)


HOST_POINTER_BYTES = 8
"""Bytes of a pointer on computers."""


def words_of_state(rows: int) -> int:
    """Gives how many words say how far a region is that is fed so many rows: a function to call (two words on computers), the rows of
    this time, those that are missing, where it goes on, also in each passage that is run there, and the counts of loops, each of which
    runs twice or more."""
    return 5 + DEEPEST_PASSAGES + rows.bit_length()


DEEPEST_PASSAGES = 6
"""Functions inside of one another in which rows are waited for."""


@dataclass(frozen=True)
class RepeatMemory:
    """The memory that a repetition needs beside its operands and results: that of its ops."""

    op: Repeat
    ops: tuple[OpMemory | RepeatMemory, ...]
    """For each op of the inner graph."""

    @property
    def workspace(self) -> None:
        """None: its ops have kernels."""
        return None

    @property
    def overread_bytes(self) -> int:
        """How far behind the end of an operand some kernel may read."""
        return max((need.overread_bytes for need in self.ops), default=0)

    @property
    def in_place(self) -> tuple[Value, ...]:
        """None: results are begun while operands are still read."""
        return ()

    @property
    def ticks(self) -> int:
        """How long it takes to go through once."""
        return 2 + sum(need.ticks for need in self.ops)

    @property
    def steps(self) -> int:
        """How many ops of the program it is: those inside, and itself."""
        return 1 + sum(need.steps for need in self.ops)

    def ticks_of_steps(self, begin: int) -> Iterator[range]:
        """Gives the ticks of each op inside, then all of them, which are its own."""
        for need, (first, end) in zip(self.ops, self.spans(begin), strict=True):
            if isinstance(need, RepeatMemory):
                yield from need.ticks_of_steps(first)
            else:
                yield range(first, end + 1)
        yield range(begin, begin + self.ticks)

    def steps_of_ticks(self, first: int) -> Iterator[tuple[int, int]]:
        """Gives for each tick the first and the last op that may run then, counted from `first` on."""
        last = first + self.steps - 1
        yield first, last
        for need in self.ops:
            yield from need.steps_of_ticks(first) if isinstance(need, RepeatMemory) else ((first, first),)
            first += need.steps
        yield last, last

    def spans(self, begin: int) -> list[tuple[int, int]]:
        """The first and the last tick of each op of the inner graph."""
        spans, at = [], begin + 1
        for need in self.ops:
            spans.append((at, at + need.ticks - 1))
            at += need.ticks
        return spans


Needs = Mapping[Op, OpMemory | RegionMemory | RepeatMemory]
"""What each op of a graph needs."""
