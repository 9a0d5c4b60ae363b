# SPDX-License-Identifier: Apache-2.0
"""How an op goes along an axis of an operand: which rows of its result are made from which rows of the operand.

This is the whole account of an op that streams need: rows may lie along any axis, and stand for frames of a signal without end."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.ir.rows import Span


@dataclass(frozen=True)
class Along:
    """Row `i` along `axis` of the result is made from `extent` rows of the operand, the first of which is
    `i * stride // unit - front`. Rows outside the operand stand for `outside`."""

    axis: int
    extent: int = 1
    stride: int = 1
    unit: int = 1
    """The rows of the result that come from the same rows of the operand."""
    front: int = 0
    outside: float | None = 0
    """The level that rows outside the operand have; None if no level has the effect of those."""

    def rows_for(self, span: Span) -> Span:
        """Gives the rows of the operand for some rows of the result; the first is negative where they begin outside."""
        first = span.first * self.stride // self.unit - self.front
        last = (span.end - 1) * self.stride // self.unit - self.front
        return Span(first, last + self.extent - first)

    def first_after(self, rows: int) -> int:
        """Gives the first row of the result that is made from none of the first rows of the operand, and from none before them."""
        return max(-(-(rows + self.front) * self.unit // self.stride), 0)


Course = Along | str
"""How an op goes along an axis of an operand, or why it does not: its rows are not made one after another."""
