# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, Shape
from pillion.ops import ReduceSum, Reshape


@rewrite_pass(ReduceSum)
def split_reductions(op: ReduceSum, at: RewriteSweep) -> Replacement:
    """Rewrites a sum over neighbouring axes as a sum over one axis between reshapes, for NPUs that reduce
    one axis. The result is exact."""
    axes = [axis for axis in op.axes if op.x.shape[axis] > 1]
    is_int8 = op.x.dtype is DType.INT8 and op.y.dtype is DType.INT8
    is_taken = len(op.axes) == 1 and (op.keepdims or op.axes != (op.x.type.rank - 1,))
    if is_taken or not is_int8 or not axes or not are_neighbours(axes, op.x.shape):
        return None
    outer, summed, inner = joined_sizes(axes, op.x.shape)
    rows = op.x.like(at.names.fresh(f"{op.name}_rows"), shape=(outer, summed, inner))
    total = op.y.like(at.names.fresh(f"{op.name}_total"), shape=(outer, 1, inner))
    return [
        Reshape(x=op.x, y=rows, source=op.source),
        ReduceSum(x=rows, y=total, axes=(1,), keepdims=True, source=op.source),
        Reshape(x=total, y=op.y, source=op.source),
    ]


def are_neighbours(axes: Sequence[int], shape: Shape) -> bool:
    """Whether no axis of more than one element lies between the given axes."""
    between = set(range(min(axes), max(axes))) - set(axes)
    return all(shape[axis] == 1 for axis in between)


def joined_sizes(axes: Sequence[int], shape: Shape) -> tuple[int, int, int]:
    """Returns the number of elements before, along and behind the axes."""
    first, end = min(axes), max(axes) + 1
    return math.prod(shape[:first]), math.prod(shape[first:end]), math.prod(shape[end:])
