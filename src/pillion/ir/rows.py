# SPDX-License-Identifier: Apache-2.0
"""Rows of tensors: what an op needs of its operands to make some rows of its result, by the ops' own account.

Rows lie along axis 1: the lines of an image, the frames of a signal. Ops say which rows they need (`Op.rows_of`), what changes in their
attributes when they make some rows only (`Op.on_rows`), and, where rows cannot be made one by one, why (`Op.crosses_rows`)."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.ir.types import Value

ROWS = 1
"""The axis of the rows; axis 0 counts images."""
FIRST_ROW = "first_row"
"""The attribute in which an op that counts its rows (`Op.counts_rows`) has the number of the first one that it makes."""


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """So many rows from the first on. It is never changed; a frozen class would take three times as long to make, and the search for
    stripes makes hundreds of thousands."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """The row behind the last one."""
        return self.first + self.count


@dataclass(frozen=True)
class Part:
    """Some of the rows that a result without rows is made of, a few at a time: of how many, and whether the first or the last ones
    are among them."""

    of: int
    is_first: bool
    is_last: bool


def within(first: int, end: int, size: int) -> Span:
    """Gives what of some rows lies in a tensor with so many."""
    first, end = min(max(first, 0), size), min(max(end, 0), size)
    return Span(first, max(end - first, 0))


def row_axis(value: Value, result: Value) -> int | None:
    """Gives the axis of a value that meets the rows of a result when both are broadcast; None if it has one row for all."""
    axis = ROWS - (result.type.rank - value.type.rank)
    return axis if axis >= 0 and value.shape[axis] != 1 else None


def same_rows(value: Value, result: Value, span: Span) -> Span | None:
    """Gives the rows of an operand that is broadcast to the result, element by element; None if all of it is needed for any."""
    return None if row_axis(value, result) is None else span


def row_bytes(value: Value) -> int:
    """The bytes of one row of one image."""
    images_and_rows = value.shape[0] * value.shape[ROWS]
    return value.type.size_bytes // max(images_and_rows, 1)


def why_no_rows(result: Value, broadcast: tuple[Value, ...] = ()) -> str:
    """Says why a result has no rows to be made one by one, or why what is broadcast to it does not follow them; empty if nothing is in
    the way."""
    if result.type.rank <= ROWS + 1:
        return f"a tensor of {result.type.rank} axes has no rows"
    short = [v for v in broadcast if v.type.rank < result.type.rank and row_axis(v, result) is not None]
    if short:
        return f"an operand of {short[0].type.rank} axes has rows of its own"
    images = [v for v in broadcast if v.type.rank == result.type.rank and v.shape[0] > 1]
    if any(v.is_constant for v in images) or any(
        v.is_constant and row_axis(v, result) is not None for v in broadcast
    ):
        return "a constant has other numbers for each row"
    return ""
