# SPDX-License-Identifier: Apache-2.0
"""Row demand: the rows that ops need of their operands, cached."""

from __future__ import annotations

from pillion.ir.access import Span
from pillion.ir.op import Op
from pillion.ir.types import Value


class RowDemand:
    """A cache of the operand rows that ops need, as the search asks for the same ones again and again."""

    def __init__(self) -> None:
        self._spans: dict[tuple[Op, int, int], dict[Value, Span | None]] = {}
        self._first: dict[tuple[Op, Value, int], int] = {}

    def spans(self, op: Op, span: Span) -> dict[Value, Span | None]:
        """Returns the rows of each operand that a span of the result reads; None for all rows."""
        key = (op, span.first, span.count)
        needed = self._spans.get(key)
        if needed is None:
            needed = self._spans[key] = {x: op.input_rows(x, span) for x in op.activations}
        return needed

    def first_row(self, op: Op, operand: Value, made: int) -> int:
        """Returns the first operand row that an op reads if it continues after `made` rows."""
        key = (op, operand, made)
        first_row = self._first.get(key)
        if first_row is None:
            rows = op.input_rows(operand, Span(made, op.row_unit))
            first_row = self._first[key] = 0 if rows is None else rows.first
        return first_row
