# SPDX-License-Identifier: Apache-2.0
"""Writes sums and extrema over axes."""

from __future__ import annotations

from pillion.emitters.tflite.exact import int8_only
from pillion.emitters.tflite.node import Node, Writing, integers
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.schemas import tflite


def reduction(code: str) -> Writing:
    """Returns the row of a reduction."""

    def row(op: ReduceSum | ReduceMax | ReduceMin) -> list[Node]:
        int8_only(op)
        axes = integers(f"{op.name}/axes", op.axes)
        return [Node(code, (op.x, axes), (op.y,), tflite.ReducerOptions(keep_dims=op.keepdims))]

    return row
