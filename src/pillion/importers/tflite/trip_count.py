# SPDX-License-Identifier: Apache-2.0
"""Computes the trip count of a loop whose counters start with constants, grow by constants, and are compared
with constants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.errors import PillionError
from pillion.importers.tflite.induction import KnownIntegers, Numbers
from pillion.importers.tflite.loop_body import LoopBody
from pillion.importers.tflite.model import TfliteReader
from pillion.ir.types import Array

LONGEST = 2**16
"""The most steps; every step's counters are evaluated."""
AT_ONCE = 4096
HELP = "loop over a fixed number of steps, or convert the layer with unroll=True"


def refused_loop(call: ReadOperator, rule: str, here: object) -> PillionError:
    """Returns the error that a loop cannot be read."""
    return call.refuse(rule, here, HELP)


@dataclass
class TripCount:
    """The trip count of a WHILE."""

    call: ReadOperator
    cond: TfliteReader
    body: LoopBody

    def __post_init__(self) -> None:
        paces = ((number, self._counter_increment(number)) for number in range(len(self.body.graph.inputs)))
        self.counters = {number: pace for number, pace in paces if pace is not None}
        """Counter operands and their increments per step; 0 if a counter is loop-invariant."""
        self.count = self._count_steps()
        counter_values = self._counter_values(self.body.graph.inputs, np.arange(self.count + 1))
        self.whole = KnownIntegers(self.body.reader, counter_values)

    def counted(self) -> dict[int, Array]:
        """Returns the final values of counters."""
        moving = {n: pace for n, pace in self.counters.items() if n not in self.body.kept}
        values: dict[int, Array] = {}
        for number, pace in moving.items():
            first = self._value_before_loop(number)
            assert first is not None
            values[number] = np.asarray(first + pace * self.count, np.int32)
        return values

    def _value_before_loop(self, number: int) -> Numbers | None:
        """Returns an operand's value before the loop, if it is a known integer."""
        value = self.call.inputs[number]
        if value is None or not value.is_constant or value.type.elements != 1 or value.is_quantized:
            return None
        return value.constant.astype(np.int64) if value.constant.dtype.kind in "ib" else None

    def _counter_increment(self, number: int) -> int | None:
        """Returns an operand's increment per step, if it is a counter."""
        before, after = self.body.graph.inputs[number], self.body.graph.outputs[number]
        if self._value_before_loop(number) is None:
            return None
        if before == after:
            return 0
        maker = self.body.maker(after)
        if maker is None or self.body.code(maker) not in ("ADD", "SUB") or before not in maker.inputs:
            return None
        others = [n for n in maker.inputs if n != before]
        increment = (
            KnownIntegers(_without_operators(self.body.reader), {}).of(others[0])
            if len(others) == 1
            else None
        )
        if (
            increment is None
            or increment.size != 1
            or (self.body.code(maker) == "SUB" and maker.inputs[0] != before)
        ):
            return None
        return int(increment.ravel()[0]) * (1 if self.body.code(maker) == "ADD" else -1)

    def _counter_values(self, inputs: list[int], steps: Array) -> dict[int, Numbers]:
        """Returns the counters' values in some steps."""
        values: dict[int, Numbers] = {}
        for number, pace in self.counters.items():
            first = self._value_before_loop(number)
            assert first is not None
            moved = (steps if pace else steps[:1]).reshape(-1, *(1,) * first.ndim) * pace
            values[inputs[number]] = np.add(first[None], moved, dtype=np.int64)
        return values

    def _count_steps(self) -> int:
        """Evaluates the condition for AT_ONCE steps at a time."""
        for begin in range(0, LONGEST + 1, AT_ONCE):
            counter_values = self._counter_values(
                self.cond.subgraph.inputs, np.arange(begin, begin + AT_ONCE)
            )
            goes_on = KnownIntegers(self.cond, counter_values).of(self.cond.subgraph.outputs[0])
            if goes_on is None or goes_on[0].size != 1:
                rule = "how often a loop runs follows from constants"
                raise refused_loop(self.call, rule, "its condition depends on data")
            exits = np.flatnonzero(goes_on.reshape(len(goes_on)) == 0)
            if exits.size:
                return self._checked_count(begin + int(exits[0]))
            if len(goes_on) < AT_ONCE:
                break
        raise refused_loop(self.call, f"a loop runs at most {LONGEST:,} times", "more often, or for ever")

    def _checked_count(self, count: int) -> int:
        if not 1 <= count <= LONGEST:
            raise refused_loop(self.call, f"a loop runs 1 to {LONGEST:,} times", count)
        return count


def _without_operators(reader: TfliteReader) -> TfliteReader:
    return reader.part(replace(reader.subgraph, operators=[]), "")
