# SPDX-License-Identifier: Apache-2.0
"""The schedule of a region: all events in order, and the buffers that they need."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from pillion.ir.access import Span, row_bytes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.byte_liveness import Extent, made_so_far, of_changes, read_later
from pillion.memory.events import Event, Firing
from pillion.memory.region_run import RegionRun
from pillion.ops import Region
from pillion.ops.region import rows_made


@dataclass(frozen=True)
class Held:
    """A buffer inside a region: its size, and its live bytes at each event."""

    value: Value
    bytes: int
    extent: Extent


@dataclass(frozen=True)
class Schedule:
    """All events of a region in order, and its buffers."""

    body: Graph
    events: tuple[Event, ...]
    buffers: tuple[Held, ...]
    storage: Mapping[Value, Value]
    """Value of the body → the value whose buffer it shares."""
    used_up: Mapping[int, Set[Value]]
    """Number of an op → operands whose rows in the buffer it always consumes entirely before it writes: a kernel
    that works in place may overwrite them."""
    fed: Value | None = None
    """The operand whose rows come from outside the arena."""

    @property
    def results(self) -> tuple[Value, ...]:
        """The result of each op of the body."""
        return tuple(op.results[0] for op in self.body.ops)

    def used_up_by(self, operand: Value) -> Extent:
        """Returns the extent of an operand of the region that no later op reads."""
        reads = [
            (i, e.starts[operand])
            for i, e in enumerate(self.events)
            if isinstance(e, Firing) and operand in e.starts
        ]
        return read_later(reads, operand.type.size_bytes, len(self.events))

    def made_of(self, result: Value) -> Extent:
        """Returns the extent of a result of the region."""
        number = self.results.index(result)
        ends = [
            (i, e.starts[result] + _written(self.body.ops[number], e.span))
            for i, e in enumerate(self.events)
            if isinstance(e, Firing) and e.op == number
        ]
        return made_so_far(ends, len(self.events))

    def firings(self, op: int) -> list[int]:
        """Returns the events in which an op runs."""
        return [i for i, e in enumerate(self.events) if isinstance(e, Firing) and e.op == op]

    def in_scratch(self, op: int) -> list[int]:
        """Returns the events during which an op's scratch is live. Tiled reductions keep their partial results
        there."""
        fired = self.firings(op)
        return list(range(fired[0], fired[-1] + 1)) if self.body.ops[op].folded_bytes else fired


def _written(op: Op, span: Span) -> int:
    """Returns the byte behind the last one that an op writes for some rows."""
    y = op.results[0]
    if op.folded_bytes:  # all of it is written with the last rows
        return y.type.size_bytes // y.shape[0] if span.end == rows_made(op) else 0
    return span.count * row_bytes(y)


def schedule(region: Region) -> Schedule:
    """Returns the schedule of a region."""
    run = RegionRun(region)
    for image in range(region.ys[0].shape[0]):
        run.image(image, region.step)
    events = tuple(run.events)
    held = tuple(
        Held(b.value, b.most * b.row_bytes, of_changes(b.changes, len(events)))
        for b in run.buffers.values()
        if b.changes
    )
    return Schedule(region.body, events, held, run.storage, run.used_up, run.fed)
