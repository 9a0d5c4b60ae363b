# SPDX-License-Identifier: Apache-2.0
"""The integers of a loop that follow from constants, found by running its counters before anything is converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.errors import PillionError
from pillion.importers.tflite.loop_body import SLICES, LoopBody
from pillion.importers.tflite.model import TfliteReader
from pillion.ir.numerics import INT32_MAX, Int64Array
from pillion.schemas.tflite import ElementType

LONGEST = 2**16
"""The most steps."""
MOST_NUMBERS = 2**20
"""The most tensors of integers that are computed or kept, over all steps."""
INTEGERS = (ElementType.INT32, ElementType.INT64, ElementType.BOOL)
"""Element types of counters."""
FEW = 16
"""The largest number of elements of a tensor of counters."""


def _make_vector_concatenation(rank: int) -> Callable[..., Int64Array]:
    """Returns a function that joins tensors of this rank, scalars or vectors, to a vector."""

    def joined(*parts: Int64Array) -> Int64Array:
        if any(part.ndim != rank for part in parts):
            raise ValueError("only vectors are made of counters")
        return np.concatenate([part.reshape(-1) for part in parts])

    return joined


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_NOT": np.logical_not,
    "CONCATENATION": _make_vector_concatenation(1),
    "PACK": _make_vector_concatenation(0),
}
RESHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST")
"""Operators that preserve the numbers of their first operand."""
Numbers = dict[int, Int64Array]
"""Known tensors, by their index."""


def refused_loop(call: ReadOperator, rule: str, here: object) -> PillionError:
    """Returns the error that a loop cannot be read."""
    return call.refuse(rule, here, "loop over a fixed number of steps, or convert the layer with unroll=True")


class _Integers:
    """The operators of a subgraph on few integers."""

    def __init__(self, reader: TfliteReader, wanted: Iterable[int]) -> None:
        self.reader, self.tensors = reader, reader.subgraph.tensors
        self.operators = [
            (code, operator.inputs[:1] if code in RESHAPES else operator.inputs, operator.outputs[0])
            for operator in reader.subgraph.operators
            if (code := reader.code(operator.opcode_index)) in (*FUNCTIONS, *RESHAPES)
            and operator.inputs
            and len(operator.outputs) == 1
            and self._is_integer(operator.outputs[0])
            and not getattr(operator.options, "fused_activation", 0)
        ]
        read = {*wanted, *(n for _, inputs, _ in self.operators for n in inputs)}
        self.constants = {n: held for n in read if (held := self._constant(n)) is not None}

    def _is_integer(self, number: int) -> bool:
        return 0 <= number < len(self.tensors) and self.tensors[number].type in INTEGERS

    def _constant(self, number: int) -> Int64Array | None:
        if not self._is_integer(number) or self.reader.data(self.tensors[number]) is None:
            return None
        value = self.reader.value(number)
        return value.constant.astype(np.int64) if value.type.elements <= FEW else None

    def computed(self, given: Numbers) -> Numbers:
        """Returns all known tensors if some inputs are known."""
        known = {**self.constants, **given}
        for code, inputs, y in self.operators:
            operands = [known[n] for n in inputs if n in known]
            result = self._result(code, operands, y) if len(operands) == len(inputs) else None
            if result is not None and result.size <= FEW and np.abs(result).max(initial=0) <= INT32_MAX:
                known[y] = result
        return known

    def _result(self, code: str, operands: list[Int64Array], y: int) -> Int64Array | None:
        try:
            if code in RESHAPES:
                return operands[0].reshape(self.tensors[y].shape)
            return np.asarray(FUNCTIONS[code](*operands), np.int64)
        except (ValueError, TypeError):  # shapes or counts of operands that do not fit
            return None


class LoopCounters:
    """The number of a loop's steps, and the known integers in each step."""

    def __init__(self, call: ReadOperator, cond: TfliteReader, body: LoopBody) -> None:
        self.call, self.inputs, self.outputs = call, body.graph.inputs, body.graph.outputs
        slices = (operator for operator in body.graph.operators if body.code(operator) in SLICES)
        self.kept = dict.fromkeys(n for operator in slices for n in operator.inputs[1:])
        self.cond = _Integers(cond, cond.subgraph.outputs)
        self.body = _Integers(body.reader, (*self.kept, *self.outputs))
        self.left = MOST_NUMBERS
        last = {n: first for n in range(len(self.inputs)) if (first := self._before(n)) is not None}
        while not self._run(last):
            last = {n: first for n in last if n in self.last and (first := self._before(n)) is not None}
        moving = {self.inputs[n] for n in self.last if n not in body.kept}
        for _, inputs, y in self.body.operators:
            if not moving.isdisjoint(inputs):
                moving.add(y)
        self.moving = moving & self.known
        """The known tensors that depend on the step."""

    def _before(self, number: int) -> Int64Array | None:
        """Returns an operand's value before the loop, if it is a known integer."""
        value = self.call.inputs[number]
        if value is None or not value.is_constant or value.type.elements != 1 or value.is_quantized:
            return None
        return value.constant.astype(np.int64) if value.constant.dtype.kind in "ib" else None

    def _run(self, first: Numbers) -> bool:
        """Runs the loop. Returns whether each operand is known in every step; the known values stay in `last`."""
        self.last, self.count, self.known = first, 0, {*self.outputs}
        rows: dict[int, list[Int64Array]] = {n: [] for n in self.kept}
        while self._goes_on():
            known = self.body.computed({self.inputs[n]: x for n, x in self.last.items()})
            self.known = {*known} if self.count == 0 else self.known & known.keys()
            after = {n: known.get(self.outputs[n]) for n in first}
            self.last = {n: x for n, x in after.items() if x is not None and x.shape == first[n].shape}
            if len(self.last) < len(first):
                return False
            for number, row in rows.items():
                row += [known[number]] if number in known else []
            self.count, self.left = self.count + 1, self.left - len(known) - len(rows)
        if not self.count:
            raise refused_loop(self.call, f"a loop runs 1 to {LONGEST:,} times", 0)
        self.rows = {n: np.stack(row) for n, row in rows.items() if n in self.known}
        return True

    def _goes_on(self) -> bool:
        """Whether the condition lets another step run."""
        graph = self.cond.reader.subgraph
        goes_on = self.cond.computed({graph.inputs[n]: x for n, x in self.last.items()}).get(graph.outputs[0])
        if goes_on is None or goes_on.size != 1:
            rule = "how often a loop runs follows from constants"
            raise refused_loop(self.call, rule, "its condition depends on data")
        if goes_on.any() and (self.count == LONGEST or self.left < 0):
            rule = f"a loop runs at most {LONGEST:,} times, with few counters"
            raise refused_loop(self.call, rule, "more often, or for ever")
        return bool(goes_on.any())
