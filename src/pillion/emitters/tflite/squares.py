# SPDX-License-Identifier: Apache-2.0
"""Writes squared differences and L2 normalizations."""

from __future__ import annotations

from pillion.emitters.tflite.exact import int8_only, refusal
from pillion.emitters.tflite.node import Node
from pillion.emitters.tflite.uint8 import between_uint8
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.squared_difference import SquaredDifference
from pillion.schemas import tflite

MOST_AXES = 4
"""The most axes that LiteRT's kernels support."""


def squared_difference(op: SquaredDifference) -> list[Node]:
    """Returns the operator."""
    int8_only(op)
    if op.a.shape != op.b.shape and op.y.type.rank > MOST_AXES:
        rule = f"LiteRT broadcasts at most {MOST_AXES} axes"
        raise refusal(op, rule, repr(op.y), "join axes by a reshape")
    return [Node("SQUARED_DIFFERENCE", (op.a, op.b), (op.y,))]


def l2_normalize(op: L2Normalize) -> list[Node]:
    """Returns the operator; with headroom on uint8, between two conversions."""
    int8_only(op)
    if op.x.type.rank > MOST_AXES:
        rule = f"LiteRT takes vectors in tensors of at most {MOST_AXES} axes"
        raise refusal(op, rule, repr(op.x), "join axes by a reshape")
    node = Node("L2_NORMALIZATION", (op.x,), (op.y,), tflite.L2NormOptions())
    return between_uint8(op, node) if op.headroom else [node]
