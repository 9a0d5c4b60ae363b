# SPDX-License-Identifier: Apache-2.0
"""Writes matrix products."""

from __future__ import annotations

from collections.abc import Callable

from pillion.emitters.tflite.exact import bounded, int8_only
from pillion.emitters.tflite.node import Node
from pillion.ir.types import Value
from pillion.ops.matmul import BatchMatmul
from pillion.schemas import tflite


def batch_matmul(op: BatchMatmul) -> list[Node]:
    """Returns the operators of a matrix product, which has no fused activation."""
    int8_only(op, *op.operands, op.y)
    options = tflite.BatchMatMulOptions(adj_x=op.adj_x, adj_y=op.adj_y)
    return _plain(op, lambda y: Node("BATCH_MATMUL", (op.a, op.b), (y,), options))


def _plain(op: BatchMatmul, build: Callable[[Value], Node]) -> list[Node]:
    """Returns the operator, followed by its bounds if it has some."""
    if (op.low, op.high) == (-128, 127):
        return [build(op.y)]
    unbounded = Value(f"{op.name}/unbounded", op.y.type)
    return [build(unbounded), *bounded(op, unbounded, op.y, op.low, op.high)]
