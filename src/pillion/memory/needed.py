# SPDX-License-Identifier: Apache-2.0
"""The rows that ops need of their operands, each asked for once."""

from __future__ import annotations

from pillion.ir.op import Op
from pillion.ir.rows import Span
from pillion.ir.types import Value


class Needed:
    """The rows that ops need of their operands, which are asked for again and again while regions of the same ops are tried."""

    def __init__(self) -> None:
        self._spans: dict[tuple[Op, int, int], dict[Value, Span | None]] = {}
        self._first: dict[tuple[Op, Value, int], int] = {}

    def spans(self, op: Op, span: Span) -> dict[Value, Span | None]:
        """Gives the rows of each operand that some rows of the result are made of; None for all."""
        key = (op, span.first, span.count)
        found = self._spans.get(key)
        if found is None:
            found = self._spans[key] = {x: op.rows_of(x, span) for x in op.activations}
        return found

    def first(self, op: Op, operand: Value, made: int) -> int:
        """Gives the first row of an operand that an op reads when it goes on after so many rows."""
        key = (op, operand, made)
        found = self._first.get(key)
        if found is None:
            rows = op.rows_of(operand, Span(made, op.row_unit))
            found = self._first[key] = 0 if rows is None else rows.first
        return found
