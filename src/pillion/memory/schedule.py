# SPDX-License-Identifier: Apache-2.0
"""How a region runs: all that happens in it, in order, and the buffers that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.rows import Span, row_bytes
from pillion.ir.types import Value
from pillion.memory.events import Event, Firing
from pillion.memory.extent import Extent, made_so_far, of_changes, read_later
from pillion.memory.run import Run
from pillion.ops import Region
from pillion.ops.region import rows_made


@dataclass(frozen=True)
class Held:
    """A buffer inside a region: how large, and what of it is in use during each event."""

    value: Value
    bytes: int
    extent: Extent


@dataclass(frozen=True)
class Schedule:
    """All that happens in a region, in order, and the buffers that it takes."""

    body: Graph
    events: tuple[Event, ...]
    buffers: tuple[Held, ...]
    storage: Mapping[Value, Value]
    """Value of the body → the value in whose buffer it lies."""
    used_up: Mapping[int, Set[Value]]
    """Number of an op → the operands of which, each time that it runs, all rows in the buffer are read and none is needed later, while
    nothing is in the result's buffer yet: a kernel that can may put the result in their place."""
    fed: Value | None = None
    """The operand whose rows come from outside the arena."""

    @property
    def results(self) -> tuple[Value, ...]:
        """The result of each op of the body."""
        return tuple(op.results[0] for op in self.body.ops)

    def used_up_by(self, operand: Value) -> Extent:
        """Gives what of an operand of the region is still read, if nobody reads it later."""
        reads = [
            (i, e.starts[operand])
            for i, e in enumerate(self.events)
            if isinstance(e, Firing) and operand in e.starts
        ]
        return read_later(reads, operand.type.size_bytes, len(self.events))

    def made_of(self, result: Value) -> Extent:
        """Gives what of a result of the region is made."""
        number = self.results.index(result)
        ends = [
            (i, e.starts[result] + _written(self.body.ops[number], e.span))
            for i, e in enumerate(self.events)
            if isinstance(e, Firing) and e.op == number
        ]
        return made_so_far(ends, len(self.events))

    def firings(self, op: int) -> list[int]:
        """Gives the events in which an op runs."""
        return [i for i, e in enumerate(self.events) if isinstance(e, Firing) and e.op == op]

    def in_scratch(self, op: int) -> list[int]:
        """Gives the events during which something is in the scratch of an op. What takes rows a few at a time keeps there what it made of
        them."""
        fired = self.firings(op)
        return list(range(fired[0], fired[-1] + 1)) if self.body.ops[op].folded_bytes else fired


def _written(op: Op, span: Span) -> int:
    """The bytes of a result behind which nothing is written when an op runs for some rows."""
    y = op.results[0]
    if op.folded_bytes:  # all of it is written with the last rows
        return y.type.size_bytes // y.shape[0] if span.end == rows_made(op) else 0
    return span.count * row_bytes(y)


def schedule(region: Region) -> Schedule:
    """Gives all that happens when a region runs."""
    run = Run(region)
    for image in range(region.ys[0].shape[0]):
        run.image(image, region.step)
    events = tuple(run.events)
    held = tuple(
        Held(b.value, b.most * b.row_bytes, of_changes(b.changes, len(events)))
        for b in run.buffers.values()
        if b.changes
    )
    return Schedule(region.body, events, held, run.storage, run.used_up, run.fed)
