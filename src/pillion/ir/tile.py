# SPDX-License-Identifier: Apache-2.0
"""Tiles: the op that computes some rows of another op's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.access import ROWS, AxisMap, ReductionRowGroup, Span
from pillion.ir.op import Op
from pillion.ir.types import TensorType, Value


@dataclass(frozen=True)
class TiledOp:
    """An op that computes some rows of one image, and the correspondence between its values and the complete op's."""

    op: Op
    parts: Mapping[Value, Value]
    """Value of the whole op → value of the tile's op."""
    spans: Mapping[Value, Span | None]
    """Value of the whole op → its rows; None if the tile reads all of it."""


def tile_attribute_changes(op: Op, span: Span) -> Mapping[str, object]:
    """Returns the attributes that change in an op that computes a span of rows, or, in a reduction, consumes it."""
    x = op.activations[0]
    if op.folded_bytes:
        return {"part": ReductionRowGroup(x.shape[ROWS], span.first == 0, span.end == x.shape[ROWS])}
    rows = op.row_maps[x]
    return op.tile(
        ROWS, span, rows.padding_counts(span, x.shape[ROWS]) if isinstance(rows, AxisMap) else (0, 0)
    )


def cut_tile(op: Op, span: Span) -> TiledOp:
    """Returns the op that computes a span of rows of one image, or, for a reduction, consumes a span of its
    operand."""
    y = op.results[0]
    result_rows = None if op.folded_bytes else span
    spans: dict[Value, Span | None] = {v: op.input_rows(v, span) for v in op.activations} | {y: result_rows}
    parts = {v: _rows_of_value(v, rows, y) for v, rows in spans.items()}
    return TiledOp(op.substitute(parts, **tile_attribute_changes(op, span)), parts, spans)


def _rows_of_value(value: Value, span: Span | None, result: Value) -> Value:
    """Returns a value for a span of rows of one image."""
    shape = list(value.shape)
    missing = max(
        result.type.rank - value.type.rank, 0
    )  # axes that broadcasting puts before the operand's own
    if not missing:
        shape[0] = 1
    if span is not None:
        shape[ROWS - missing] = span.count
    return Value(value.name, TensorType(tuple(shape), value.dtype, value.type.quant))
