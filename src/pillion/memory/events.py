# SPDX-License-Identifier: Apache-2.0
"""Events of a region: an op computes some rows, rows move within their buffer, rows arrive from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.access import Span
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Reshape


@dataclass(frozen=True)
class InnerOpRun:
    """One run of an inner op for some rows of its result."""

    op: int
    """The op's number in the body."""
    span: Span
    image: int
    starts: Mapping[Value, int]
    """Operand or result → the byte of its buffer where the rows begin."""


@dataclass(frozen=True)
class RowMove:
    """Moves the rows that are still needed to the front of their buffer."""

    value: Value
    source: int
    bytes: int


@dataclass(frozen=True)
class RowFeed:
    """Rows of an operand that arrive from outside the arena."""

    value: Value
    rows: int
    start: int | None
    """The byte of the buffer where they are stored; None for rows that no op reads."""


Event = InnerOpRun | RowMove | RowFeed

ALIGNMENT = 16
"""The alignment of buffers in bytes."""


def align_up(size: int) -> int:
    """Rounds a size up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def is_alias(op: Op) -> bool:
    """Whether an op does nothing at run time: its result is another view of its operand."""
    return isinstance(op, Reshape)


def storage_roots(body: Graph) -> dict[Value, Value]:
    """Maps each value to the value whose bytes it shares: a reshape moves nothing."""
    roots = {v: v for v in body.inputs}
    for op in body.ops:
        x = op.operands[0] if is_alias(op) else None
        roots.update((y, y if x is None or x.is_constant else roots[x]) for y in op.results)
    return roots
