# SPDX-License-Identifier: Apache-2.0
"""Reads sums and extrema over axes."""

from __future__ import annotations

from typing import Any

from pillion.importers.tflite.geometry import axis_of
from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.importers.tflite.operands import int8_only
from pillion.ir.op import Op
from pillion.schemas import tflite


def reduction(cls: Any) -> Reading:
    """Returns the reader of a reduction."""

    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        x = call.operand(0)
        axes = tuple(sorted({axis_of(call, axis, x.type.rank) for axis in call.integers(1)}))
        keepdims = call.options_as(tflite.ReducerOptions).keep_dims
        return [cls(x=x, y=call.result, axes=axes, keepdims=keepdims, source=call.source)]

    return row
