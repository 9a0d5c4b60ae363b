# SPDX-License-Identifier: Apache-2.0
"""Predicts a whole region from its first steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from itertools import accumulate

from pillion.ir.access import ROWS, row_bytes
from pillion.ir.types import Value
from pillion.memory.demand import RowDemand
from pillion.memory.events import InnerOpRun, RowMove, align_up, is_alias
from pillion.memory.region_run import RegionSimulation
from pillion.ops import Region


@dataclass(frozen=True)
class WarmUpPrediction:
    """The prediction for a region from its first steps."""

    bytes: int
    """The estimated maximum of live bytes in its buffers, its results and the operands that it consumes."""
    runs: tuple[Mapping[int, float], ...]
    """For each op: rows per run → the estimated number of runs, for one image."""
    moved_bytes: float
    """The estimated number of bytes moved for one image."""


def predict_from_first_steps(
    region: Region,
    extra_bytes: Callable[[int, int], int],
    needed: RowDemand,
    used_up: Set[Value] = frozenset(),
    steps: int = 3,
) -> WarmUpPrediction:
    """Simulates the first steps of a region. `extra_bytes` returns the scratch of an op, by its number and rows;
    `used_up` are the operands that no later op reads."""
    run = RegionSimulation(region, needed)
    run.image(0, region.step, steps)
    return _SimulatedSteps(run, region).extrapolate_steps(extra_bytes, used_up)


class _SimulatedSteps:
    """The simulated first steps of a region."""

    def __init__(self, run: RegionSimulation, region: Region) -> None:
        self.run, self.region = run, region
        self.driver = run.buffer_of(region.body.ops[-1].results[0])
        ops = region.body.ops
        self.counts = [Counter[int]() for _ in ops]
        self.last = [Counter[int]() for _ in ops]
        """How often each op computed how many rows: in all simulated steps, and in the last one."""
        self.all_moved, self.last_moved = Counter[Value](), Counter[Value]()
        """Bytes moved of each value, in all steps and in the last one."""
        self.taken = 0
        for number, event in enumerate(run.events):
            if isinstance(event, InnerOpRun):
                self.counts[event.op][event.span.count] += 1
                self.last[event.op][event.span.count] += number >= run.step_begins[-1]
            elif isinstance(event, RowMove):
                self.all_moved[event.value] += event.bytes
                self.last_moved[event.value] += event.bytes * (number >= run.step_begins[-1])
            else:
                self.taken += event.rows * run.buffer_of(event.value).row_bytes

    def extrapolate_steps(
        self, extra_bytes: Callable[[int, int], int], used_up: Set[Value]
    ) -> WarmUpPrediction:
        """Extrapolates to all steps."""
        later = [{} if is_alias(op) else self._later_runs(i) for i, op in enumerate(self.region.body.ops)]
        runs = tuple(
            {rows: now[rows] + more.get(rows, 0.0) for rows in {**now, **more}}
            for now, more in zip(self.counts, later, strict=True)
        )
        moved = self.taken + sum(self._moved_bytes(v) for v in self.all_moved if v in self.run.producers)
        return WarmUpPrediction(self._peak_bytes(extra_bytes, used_up), runs, moved + self._later_fed_bytes())

    def _later_runs(self, number: int) -> dict[int, float]:
        """Estimates the runs after the first steps: they resemble the last one or, if it has none, all."""
        seen = self.last[number] if self.last[number].total() else self.counts[number]
        more = self._later_rows_ratio(number, seen)
        return {rows: times * more for rows, times in seen.items() if times}

    def _later_rows_ratio(self, number: int, seen: Counter[int]) -> float:
        """Returns the number of rows that a result still lacks, per row in `seen`."""
        buffer = self.run.buffer_of(self.region.body.ops[number].results[0])
        total = sum(rows * times for rows, times in seen.items())
        return max(buffer.size - buffer.made, 0) / total if total else 0.0

    def _moved_bytes(self, value: Value) -> float:
        """Estimates the moved bytes of a value: later steps move as many per row as the last one, or as the
        average if that is more."""
        number = self.run.producers[value]
        last = self.last_moved[value] * self._later_rows_ratio(number, self.last[number])
        return self.all_moved[value] + max(
            last, self.all_moved[value] * self._later_rows_ratio(number, self.counts[number])
        )

    def _later_fed_bytes(self) -> float:
        """Returns the bytes that arrive from outside after the first steps."""
        fed = self.run.buffer_of(self.run.fed) if self.run.fed is not None else None
        return (fed.size - fed.made) * fed.row_bytes if fed is not None else 0

    def _peak_bytes(self, extra_bytes: Callable[[int, int], int], used_up: Set[Value]) -> int:
        """Estimates the maximum of live bytes: that of the first steps, plus the growth of results beyond the
        operands consumed. Other buffers can use about half of the bytes that are free for a while."""
        events = self.run.events
        changes = [0] * (len(events) + 1)
        for buffer in self.run.buffers.values():
            before = 0
            for at, low, high in buffer.changes:
                now = (high - low + buffer.most * buffer.row_bytes) // 2 if low < high else 0
                changes[at] += now - before
                before = now
        left = self._record_consumption(used_up, changes)
        produced = self._record_production(changes)
        live = accumulate(changes[:-1])
        extra = {(i, rows): extra_bytes(i, rows) for i, counted in enumerate(self.counts) for rows in counted}
        peak = max(
            now + (extra[e.op, e.span.count] if isinstance(e, InnerOpRun) else 0)
            for now, e in zip(live, events, strict=True)
        )
        consumed_bytes = sum(v.type.size_bytes for v in used_up)
        folded = sum(align_up(op.folded_bytes) for op in self.region.body.ops)
        return folded + peak + max(int(left * (produced - consumed_bytes)), 0)

    def _record_consumption(self, used_up: Set[Value], changes: list[int]) -> float:
        """Records the consumption of operands; returns the share that is still to be read."""
        rows = {x: 0 for x in self.region.xs if x is not self.run.fed and x.type.rank > ROWS}
        firsts = {
            (x, self.run.producers[y.value]): 0 for x in rows for _, _, y in self.run.buffer_of(x).users
        }
        for i, event in enumerate(self.run.events):
            if not isinstance(event, InnerOpRun):
                continue
            op = self.region.body.ops[event.op]
            for x in [x for x in op.activations if x in rows]:
                firsts[x, event.op] = self.run.needed.first_row(op, x, event.span.end)
                row = min(first for (read, _), first in firsts.items() if read is x)
                changes[i + 1] -= (row - rows[x]) * row_bytes(x) if x in used_up else 0
                rows[x] = row
        changes[0] += sum(x.type.size_bytes for x in used_up)
        shares = [1 - row / x.shape[ROWS] for x, row in rows.items()]
        fed = self.run.buffer_of(self.run.fed) if self.run.fed is not None else None
        return max([0.0, *shares, 1 - fed.made / fed.size if fed is not None else 0.0])

    def _record_production(self, changes: list[int]) -> int:
        """Records the production of results; returns their bytes."""
        folded = {op.results[0] for op in self.region.body.ops if op.folded_bytes}
        results = {y: 0 if y in folded else row_bytes(y) for y in self.region.ys}
        changes[0] += sum(y.type.size_bytes for y in folded)
        for i, event in enumerate(self.run.events):
            y = self.region.body.ops[event.op].results[0] if isinstance(event, InnerOpRun) else None
            if y in results and isinstance(event, InnerOpRun):
                changes[i] += event.span.count * results[y]
        return sum(y.type.size_bytes for y in results)
