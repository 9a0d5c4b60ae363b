# SPDX-License-Identifier: Apache-2.0
"""The live bytes of a graph while one op or several consecutive ones run. A fed input, whose rows are delivered one
after another, takes none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from pillion.ir.access import Span, row_bytes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.events import align_up
from pillion.memory.op_memory import OpMemory
from pillion.ops.region import rows_made

LEAST_BORDER = 0.75
"""A lower bound for the live share of a region's operands and results while all inner tensors have rows."""


class LiveBytes:
    """The lifetimes of the tensors of a graph. `in_rows` says for each op whether it can run a few rows at a time."""

    def __init__(self, graph: Graph, fed: Value | None, in_rows: Sequence[bool]) -> None:
        self.graph, self.fed = graph, fed
        ops = graph.ops
        self.born = {v: -1 for v in graph.sources} | {v: i for i, op in enumerate(ops) for v in op.results}
        self.last = {v: i for i, op in enumerate(ops) for v in op.activations}
        self.last |= {v: len(ops) for v in graph.sinks}
        self.crossing = self._bytes_between_ops()
        """For each boundary between two ops, the bytes of the values that cross it."""
        self.least_of_region = cache(self._estimate_least_of_region)
        self._kept: dict[Value, int] = {}
        """The bytes of a tensor that its readers keep from row to row."""
        self._new_row = [
            self._record_window(op) if rows else 0 for op, rows in zip(ops, in_rows, strict=True)
        ]
        """The bytes of new operand rows that each op reads for one more row."""

    def _bytes_between_ops(self) -> list[int]:
        changes = [0] * (len(self.graph.ops) + 2)
        for v, born in self.born.items():
            if born < (last := self.last.get(v, -1)):
                changes[born + 1] += self._value_bytes(v)
                changes[last + 1] -= self._value_bytes(v)
        return list(accumulate(changes))[:-1]

    def _last_read_bytes(self, first: int, end: int) -> int:
        """Returns the bytes of earlier values that only these ops read."""
        read = {v for op in self.graph.ops[first:end] for v in op.activations}
        return sum(self._value_bytes(v) for v in read if self.born[v] < first and self.last[v] < end)

    def _value_bytes(self, value: Value) -> int:
        return 0 if value is self.fed else align_up(value.type.size_bytes)

    def of_whole_op(self, i: int, need: OpMemory) -> int:
        """Returns the live bytes while an op runs whole: other live values, operands, the result unless it is in
        place, scratch."""
        op = self.graph.ops[i]
        dying = [v for v in need.in_place if self.last.get(v) == i]
        over = bool(dying) and self._value_bytes(op.results[0]) <= max(map(self._value_bytes, dying))
        operands = sum(self._value_bytes(v) for v in dict.fromkeys(op.activations) if self.last[v] == i)
        results = 0 if over or op.kind == "reshape" else sum(map(self._value_bytes, op.results))
        return self.unrelated(i, i + 1) + operands + results + align_up(need.scratch_bytes)

    def unrelated(self, first: int, end: int) -> int:
        """Returns the bytes of unrelated values that are live while ops run."""
        return self.crossing[first] - self._last_read_bytes(first, end)

    def _record_window(self, op: Op) -> int:
        """Records the operand bytes that an op keeps for its next row. Returns the most new bytes that it reads for
        one."""
        middle, new = rows_made(op) // 2 // op.row_unit * op.row_unit, 0
        for x in dict.fromkeys(op.activations):
            now, then = (
                op.input_rows(x, Span(first, op.row_unit)) for first in (middle, middle + op.row_unit)
            )
            if now is not None and then is not None:
                kept = min(max(now.end - then.first, 0), now.count) * row_bytes(x)
                self._kept[x] = max(self._kept.get(x, 0), kept)
                new = max(new, now.count * row_bytes(x) - kept)
        return new

    def _estimate_least_of_region(self, first: int, end: int) -> int:
        """Estimates the fewest bytes that any region of these ops needs: unrelated values, kept rows of inner
        tensors, and the operand rows of one op."""
        used_up = self._last_read_bytes(first, end)
        made = [v for i in range(first, end) for v in self.graph.ops[i].results]
        left = sum(self._value_bytes(v) for v in made if self.last.get(v, -1) >= end)
        kept = sum(self._kept.get(v, 0) for v in made if self.last.get(v, -1) < end)
        new = max(self._new_row[first + 1 : end], default=0)
        border = max(min(used_up, left), int(LEAST_BORDER * max(used_up, left)))
        return self.crossing[first] - used_up + border + kept + new
