# SPDX-License-Identifier: Apache-2.0
"""Which 16-bit images are never negative: a fact that follows from the ops before a convolution, and that its kernels may use."""

from __future__ import annotations

from dataclasses import replace

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ops import (
    Add,
    AvgPool2d,
    BatchMatmul,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Flip,
    Linear,
    MaxPool2d,
    Mul,
    Normalize,
    Pad,
    Reshape,
    ResizeNearest,
    Slice,
    Sub,
    Transpose,
    TransposeConv2d,
)

BOUNDED = (
    *(Add, AvgPool2d, BatchMatmul, Clamp, Conv2d, DepthwiseConv2d, Linear, MaxPool2d, Mul, Normalize, Sub),
    TransposeConv2d,
)
"""Ops whose results are at least their `low`."""
KEEPING = (AvgPool2d, Concat, Flip, MaxPool2d, Pad, Reshape, ResizeNearest, Slice, Transpose)
"""Ops whose results lie between the smallest and the largest number of their operands, and the value of padding."""


def mark_nonnegative(graph: Graph) -> Graph:
    """Marks the convolutions whose 16-bit images are never negative. Inputs, states and the results of loops may be."""
    found: set[Value] = set()
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Conv2d) and op.x in found and op.x.dtype is DType.INT16:
            op = replace(op, x_nonnegative=True)
        if _is_nonnegative(op, found):
            found.update(op.results)
        ops.append(op)
    return graph if tuple(ops) == graph.ops else graph.replace(ops=tuple(ops))


def _is_nonnegative(op: Op, known: set[Value]) -> bool:
    """Whether no result of an op is negative, by its bounds or because of its operands."""
    if isinstance(op, BOUNDED) and op.low >= 0:
        return True
    fills = isinstance(op, Pad) and op.value < 0
    return isinstance(op, KEEPING) and known.issuperset(op.operands) and not fills
