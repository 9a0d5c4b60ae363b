# SPDX-License-Identifier: Apache-2.0
"""Between which numbers 16-bit images lie: facts that follow from the ops before a convolution, and that its kernels may use."""

from __future__ import annotations

from dataclasses import replace

from pillion import ops
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ops.elementwise import AddOrSub
from pillion.ops.layer import Layer
from pillion.ops.movement import Movement

Bounds = tuple[int, int]
BOUNDED = (Layer, AddOrSub, ops.AvgPool2d, ops.BatchMatmul, ops.Clamp, ops.MaxPool2d, ops.Mul, ops.Normalize)
"""Ops whose results lie between `low` and `high`."""
KEEPING = (Movement, ops.AvgPool2d, ops.MaxPool2d, ops.ResizeNearest)
"""Ops whose results lie between the smallest and the largest number of their operands, and the value of padding."""


def mark_bounds(graph: Graph) -> Graph:
    """Notes the bounds of 16-bit images in the convolutions that read them, if they are narrower than the type. Inputs,
    states and the results of loops may have all numbers."""
    known: dict[Value, Bounds] = {}
    marked: list[Op] = []
    for op in graph.ops:
        if isinstance(op, ops.Conv2d) and op.x in known and op.x.dtype is DType.INT16:
            op = replace(op, x_bounds=known[op.x])
        if {y.dtype for y in op.results} == {DType.INT16}:
            bounds = _bounds_of_results(op, known)
            known.update((y, bounds) for y in op.results if bounds != DType.INT16.bounds)
        marked.append(op)
    return graph if tuple(marked) == graph.ops else graph.replace(ops=tuple(marked))


def _bounds_of_results(op: Op, known: dict[Value, Bounds]) -> Bounds:
    """Returns the bounds of the results of an op, by its own bounds and those of its operands."""
    low, high = DType.INT16.bounds
    if isinstance(op, KEEPING):
        of_operands = [known.get(x, DType.INT16.bounds) for x in op.operands]
        of_operands += [(int(op.value), int(op.value))] if isinstance(op, ops.Pad) else []
        of_operands += [(0, 0)] if isinstance(op, ops.AvgPool2d) else []  # padding
        low, high = min(one[0] for one in of_operands), max(one[1] for one in of_operands)
    return (max(low, op.low), min(high, op.high)) if isinstance(op, BOUNDED) else (low, high)
