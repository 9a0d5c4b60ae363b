# SPDX-License-Identifier: Apache-2.0
"""The time line of core and NPU: two queues with dependences, the order of ops that shortens it, and its critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.memory.npu_calls import NpuCalls, overlapped_ops, state_writers
from pillion.ops import Segment


@dataclass(frozen=True)
class TimelineEntry:
    """One op on its unit; times count from the beginning of a run, in the unit of the durations."""

    op: Op
    begin: float
    end: float
    is_critical: bool = False
    """Whether the run would be shorter if this op were."""

    @property
    def unit(self) -> str:
        """The name of the unit."""
        return "npu" if isinstance(self.op, Segment) else "cpu"


@dataclass(frozen=True)
class Timeline:
    """All ops of a program on their units, in starting order."""

    entries: tuple[TimelineEntry, ...]

    @property
    def total(self) -> float:
        """The duration of a run."""
        return max((entry.end for entry in self.entries), default=0.0)

    @property
    def serial(self) -> float:
        """The duration if one op runs after the other."""
        return sum(entry.end - entry.begin for entry in self.entries)

    @property
    def critical_path(self) -> list[TimelineEntry]:
        """The chain of ops that determines the duration; ops that take no time are left out."""
        return [entry for entry in self.entries if entry.is_critical and entry.end > entry.begin]


def timeline(graph: Graph, durations: Mapping[Op, float], calls: NpuCalls) -> Timeline:
    """Returns the time line of the ops of a graph in their order. The core waits for a segment before the first op
    that needs it; there is one NPU."""
    entries: list[TimelineEntry] = []
    causes: list[int] = []
    """For each entry, the one whose end let it begin."""
    now, last = 0.0, -1
    running: tuple[int, int] | None = None
    """The entry of the segment that runs, and the index of the op before which the core waits for it."""
    behind = overlapped_ops(graph, calls)
    for number, op in enumerate(graph.ops):
        entries.append(TimelineEntry(op, now, now + durations[op]))
        causes.append(last)
        if isinstance(op, Segment):
            running = number, number + behind[op]
        else:
            now, last = entries[-1].end, number
        if running is not None and running[1] == number:
            if entries[running[0]].end > now:
                now, last = entries[running[0]].end, running[0]
            running = None
    while last >= 0:
        entries[last] = replace(entries[last], is_critical=True)
        last = causes[last]
    return Timeline(tuple(entries))


def overlapping_order(graph: Graph, durations: Mapping[Op, float]) -> Graph:
    """Orders ops so that the core works while the NPU does: list scheduling, the longest path to the end first. Returns
    the graph itself if that shortens nothing."""
    ordered = graph.replace(ops=tuple(_ListSchedule(graph, durations).order()))
    before, after = (timeline(g, durations, NpuCalls.OVERLAPPED).total for g in (graph, ordered))
    return ordered if after < before else graph


class _ListSchedule:
    """The schedule of a graph on two units."""

    def __init__(self, graph: Graph, durations: Mapping[Op, float]) -> None:
        self.ops, self.durations = graph.ops, durations
        self.before = _predecessors(graph)
        after: dict[Op, list[Op]] = {op: [] for op in graph.ops}
        for op, some in self.before.items():
            for one in some:
                after[one].append(op)
        self.path: dict[Op, float] = {}
        """The duration from the begin of an op to the end of the run, on the longest path."""
        for op in reversed(graph.ops):
            self.path[op] = durations[op] + max((self.path[one] for one in after[op]), default=0.0)

    def order(self) -> list[Op]:
        """Returns the ops in the order in which they start. A segment starts as soon as the NPU is free; the core takes
        the op with the longest path among those that wait for nothing."""
        left, ends = list(self.ops), dict[Op, float]()
        now = npu_free = 0.0
        while left:
            ready = [op for op in left if all(ends.get(one, now + 1.0) <= now for one in self.before[op])]
            op = self._longest(ready, is_npu_free=now >= npu_free)
            if op is None:
                now = npu_free
                continue
            left.remove(op)
            ends[op] = now + self.durations[op]
            if isinstance(op, Segment):
                npu_free = ends[op]
            else:
                now = ends[op]
        return list(ends)

    def _longest(self, ready: Sequence[Op], is_npu_free: bool) -> Op | None:
        """Returns the ready op with the longest path: a segment if the NPU is free and one is ready, otherwise one of the
        core."""
        segments = [op for op in ready if isinstance(op, Segment)]
        chosen = segments if is_npu_free and segments else [op for op in ready if op not in segments]
        return max(chosen, key=self.path.__getitem__, default=None)


def _predecessors(graph: Graph) -> dict[Op, set[Op]]:
    """Returns the ops that run before each op: the ops that compute its operands, and the earlier readers of a state
    that it overwrites."""
    writers = state_writers(graph)
    before: dict[Op, set[Op]] = {}
    for number, op in enumerate(graph.ops):
        before[op] = {graph.producers[v] for v in op.activations if v in graph.producers}
        over = writers.get(op, set())
        before[op] |= {one for one in graph.ops[:number] if over & set(one.activations)}
    return before
