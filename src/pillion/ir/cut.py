# SPDX-License-Identifier: Apache-2.0
"""The op that makes just some rows of another op's result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pillion.ir.op import Op, operand_fields, result_fields
from pillion.ir.rows import ROWS, Span
from pillion.ir.types import TensorType, Value


@dataclass(frozen=True)
class Cut:
    """An op that makes some rows of one image, and what stands for which rows of which value of the whole op."""

    op: Op
    parts: Mapping[Value, Value]
    """Value of the whole op → the value of the cut op."""
    spans: Mapping[Value, Span | None]
    """Value of the whole op → its rows; None if it is read whole."""


def cut(op: Op, span: Span) -> Cut:
    """Gives the op that makes some rows of one image of the result, or that takes some of its operand's if the result has none."""
    y = op.results[0]
    made = None if op.folded_bytes else span
    spans: dict[Value, Span | None] = {v: op.rows_of(v, span) for v in op.activations} | {y: made}
    parts = {v: _part(v, rows, y) for v, rows in spans.items()}
    changes: dict[str, Any] = dict(op.on_rows(span))
    for name in (*operand_fields(op), *result_fields(op)):
        held = getattr(op, name)
        changes[name] = (
            tuple(parts.get(v, v) for v in held) if isinstance(held, tuple) else parts.get(held, held)
        )
    return Cut(dataclasses.replace(op, **changes), parts, spans)


def _part(value: Value, span: Span | None, result: Value) -> Value:
    """Some rows of one image."""
    shape = list(value.shape)
    missing = max(
        result.type.rank - value.type.rank, 0
    )  # axes that broadcasting puts before the operand's own
    if not missing:
        shape[0] = 1
    if span is not None:
        shape[ROWS - missing] = span.count
    return Value(value.name, TensorType(tuple(shape), value.dtype, value.type.quant))
