# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape, TensorType, Value
from pillion.ops import ReduceSum, Reshape


def split_reductions(graph: Graph) -> Graph:
    """Rewrites a sum over neighbouring axes as a sum over one axis between reshapes, for NPUs that reduce
    one axis. The result is exact."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda _, op: _reduce_one_axis(op, names))


def _reduce_one_axis(op: Op, names: UniqueNames) -> list[Op] | None:
    if not isinstance(op, ReduceSum) or op.x.dtype is not DType.INT8 or op.y.dtype is not DType.INT8:
        return None
    last = op.x.type.rank - 1
    axes = [axis for axis in op.axes if op.x.shape[axis] > 1]
    is_taken = len(op.axes) == 1 and (op.keepdims or op.axes != (last,))
    if is_taken or not axes or not neighbours(axes, op.x.shape):
        return None
    outer, summed, inner = joined(axes, op.x.shape)
    rows = Value(
        names.fresh(f"{op.name}_rows"), TensorType((outer, summed, inner), DType.INT8, op.x.type.quant)
    )
    total = Value(names.fresh(f"{op.name}_total"), TensorType((outer, 1, inner), DType.INT8, op.y.type.quant))
    return [
        Reshape(x=op.x, y=rows, source=op.source),
        ReduceSum(x=rows, y=total, axes=(1,), keepdims=True, source=op.source),
        Reshape(x=total, y=op.y, source=op.source),
    ]


def neighbours(axes: Sequence[int], shape: Shape) -> bool:
    """Whether no axis of more than one element lies between the given axes."""
    between = set(range(min(axes), max(axes))) - set(axes)
    return all(shape[axis] == 1 for axis in between)


def joined(axes: Sequence[int], shape: Shape) -> tuple[int, int, int]:
    """Returns the number of elements before, along and behind the axes."""
    first, end = min(axes), max(axes) + 1
    return math.prod(shape[:first]), math.prod(shape[first:end]), math.prod(shape[end:])
