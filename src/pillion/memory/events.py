# SPDX-License-Identifier: Apache-2.0
"""What can happen in a region: an op runs for some rows, rows move within their buffer, rows come from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.op import Op
from pillion.ir.rows import Span
from pillion.ir.types import Value
from pillion.ops import Reshape


@dataclass(frozen=True)
class Firing:
    """One run of an op of the body for some rows of its result."""

    op: int
    """Its number in the body."""
    span: Span
    image: int
    starts: Mapping[Value, int]
    """Operand or result → the byte of its buffer at which the rows begin."""


@dataclass(frozen=True)
class Move:
    """Rows that are kept go to the front of their buffer."""

    value: Value
    source: int
    bytes: int


@dataclass(frozen=True)
class Feed:
    """Rows of an operand that come from outside the arena."""

    value: Value
    rows: int
    start: int | None
    """The byte of its buffer at which they go; None for rows that nobody reads."""


Event = Firing | Move | Feed

ALIGNMENT = 16
"""Buffers begin at multiples of so many bytes."""


def aligned(size: int) -> int:
    """Rounds a size up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def is_alias(op: Op) -> bool:
    """Whether an op has nothing to do at run time: its result is another view of its operand's bytes."""
    return isinstance(op, Reshape)
