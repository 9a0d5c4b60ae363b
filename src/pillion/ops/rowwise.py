# SPDX-License-Identifier: Apache-2.0
"""Ops that make each row from the same row of their operand."""

from __future__ import annotations

from pillion.ir.along import Along, Course
from pillion.ir.op import Op
from pillion.ir.rows import Span, why_no_rows
from pillion.ir.types import Value


class RowWise(Op):
    """The base of ops that make each row from the same row of their operand."""

    y: Value

    @property
    def crosses_rows(self) -> str:
        return why_no_rows(self.y)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span

    def along(self, operand: Value, axis: int) -> Course:
        return Along(axis)
