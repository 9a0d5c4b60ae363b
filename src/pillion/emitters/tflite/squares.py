# SPDX-License-Identifier: Apache-2.0
"""The square of a difference as a TFLite operator."""

from __future__ import annotations

from pillion.emitters.tflite.exact import int8_only, refusal
from pillion.emitters.tflite.node import Node
from pillion.ops.squared_difference import SquaredDifference

MOST_AXES = 4
"""The most axes along which LiteRT broadcasts it."""


def squared_difference(op: SquaredDifference) -> list[Node]:
    """Gives the operator."""
    int8_only(op)
    if op.a.shape != op.b.shape and op.y.type.rank > MOST_AXES:
        rule = f"LiteRT broadcasts at most {MOST_AXES} axes"
        raise refusal(op, rule, repr(op.y), "join axes by a reshape")
    return [Node("SQUARED_DIFFERENCE", (op.a, op.b), (op.y,))]
