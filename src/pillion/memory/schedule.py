# SPDX-License-Identifier: Apache-2.0
"""The schedule of a region: all events in order, and the buffers that they need."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from pillion.ir.access import Span, row_bytes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.byte_liveness import (
    LiveExtent,
    extent_from_changes,
    extent_of_unread_bytes,
    extent_of_written_bytes,
)
from pillion.memory.events import Event, InnerOpRun
from pillion.memory.region_run import RegionSimulation
from pillion.ops import Region
from pillion.ops.region import rows_made


@dataclass(frozen=True)
class RegionBuffer:
    """A buffer inside a region: its size, and its live bytes at each event."""

    value: Value
    bytes: int
    extent: LiveExtent


@dataclass(frozen=True)
class Schedule:
    """All events of a region in order, and its buffers."""

    body: Graph
    events: tuple[Event, ...]
    buffers: tuple[RegionBuffer, ...]
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

    def consumed_operand_extent(self, operand: Value) -> LiveExtent:
        """Returns the extent of an operand of the region that no later op reads."""
        reads = [
            (i, e.starts[operand])
            for i, e in enumerate(self.events)
            if isinstance(e, InnerOpRun) and operand in e.starts
        ]
        return extent_of_unread_bytes(reads, operand.type.size_bytes, len(self.events))

    def result_extent(self, result: Value) -> LiveExtent:
        """Returns the extent of a result of the region."""
        number = self.results.index(result)
        ends = [
            (i, e.starts[result] + _written_end(self.body.ops[number], e.span))
            for i, e in enumerate(self.events)
            if isinstance(e, InnerOpRun) and e.op == number
        ]
        return extent_of_written_bytes(ends, len(self.events))

    def run_events(self, op: int) -> list[int]:
        """Returns the events in which an op runs."""
        return [i for i, e in enumerate(self.events) if isinstance(e, InnerOpRun) and e.op == op]

    def scratch_live_events(self, op: int) -> list[int]:
        """Returns the events during which an op's scratch is live. Tiled reductions keep their partial results
        there."""
        events = self.run_events(op)
        return list(range(events[0], events[-1] + 1)) if self.body.ops[op].folded_bytes else events


def _written_end(op: Op, span: Span) -> int:
    """Returns the byte behind the last one that an op writes for some rows."""
    y = op.results[0]
    if op.folded_bytes:  # all of it is written with the last rows
        return y.type.size_bytes // y.shape[0] if span.end == rows_made(op) else 0
    return span.count * row_bytes(y)


def schedule(region: Region) -> Schedule:
    """Returns the schedule of a region."""
    run = RegionSimulation(region)
    for image in range(region.ys[0].shape[0]):
        run.image(image, region.step)
    events = tuple(run.events)
    buffers = tuple(
        RegionBuffer(b.value, b.most * b.row_bytes, extent_from_changes(b.changes, len(events)))
        for b in run.buffers.values()
        if b.changes
    )
    return Schedule(region.body, events, buffers, run.storage, run.used_up, run.fed)
