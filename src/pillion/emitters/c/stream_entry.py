# SPDX-License-Identifier: Apache-2.0
"""How a stream receives frames in C: its counters, and frames that wait for a run, lie behind the model's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.graph import Graph
from pillion.ir.stream_io import FedInput, Streaming
from pillion.ir.types import Value
from pillion.memory import MemoryPlan
from pillion.memory.events import align_up

COUNTERS = 8
"""The size of two counters: runs since the reset, saturated, and calls since the last run."""


@dataclass(frozen=True)
class StreamEntry:
    """The frames that a stream takes, and where they wait among the states."""

    streaming: Streaming
    inputs: tuple[Value, ...]
    counters: int
    """The offset of the counters."""
    waiting: Mapping[Value, int]
    """The offsets of waiting frames, if a run needs the frames of several calls."""
    end: int
    """The size of all states."""

    def fed(self, value: Value) -> FedInput | None:
        """Returns the specification of an input that arrives in frames; None for one that is passed completely."""
        return next((fed for fed in self.streaming.inputs if fed.name == value.name), None)


def stream_entry(graph: Graph, memory: MemoryPlan) -> StreamEntry | None:
    """Lays out the stream's counters and waiting frames; None for a program that is no stream, or whose states are
    passed in."""
    if graph.streaming is None or not graph.states:
        return None
    counters = memory.state_bytes
    at, waiting = counters + align_up(COUNTERS), {}
    names = {fed.name for fed in graph.streaming.inputs}
    for value in graph.inputs if graph.streaming.calls > 1 else ():
        if value.name in names:
            waiting[value] = at
            at += align_up(value.type.size_bytes)
    return StreamEntry(graph.streaming, graph.inputs, counters, waiting, at)
