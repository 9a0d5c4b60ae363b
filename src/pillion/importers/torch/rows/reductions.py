# SPDX-License-Identifier: Apache-2.0
"""What runs over axes: means, sums, extrema, softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pillion.importers.torch.layout import Builder, Placed
from pillion.importers.torch.rows.table import aten, lowers
from pillion.ir.op import Op
from pillion.ops import Mean, ReduceMax, ReduceMin, ReduceSum, Softmax


@lowers(aten.mean.dim)
def mean(b: Builder, x: Placed, dim: Sequence[int] | None, keepdim: bool = False) -> Placed:
    """Gives the mean over some axes."""
    return reduced(b, Mean, x, dim, keepdim)


@lowers(aten.sum.dim_IntList)
def sum_dim(b: Builder, x: Placed, dim: Sequence[int] | None, keepdim: bool = False) -> Placed:
    """Gives the sum over some axes."""
    return reduced(b, ReduceSum, x, dim, keepdim)


@lowers(aten.amax.default)
def amax(b: Builder, x: Placed, dim: Sequence[int] = (), keepdim: bool = False) -> Placed:
    """Gives the maximum over some axes."""
    return reduced(b, ReduceMax, x, dim, keepdim)


@lowers(aten.amin.default)
def amin(b: Builder, x: Placed, dim: Sequence[int] = (), keepdim: bool = False) -> Placed:
    """Gives the minimum over some axes."""
    return reduced(b, ReduceMin, x, dim, keepdim)


def reduced(b: Builder, cls: type[Op], x: Placed, dim: Sequence[int] | None, keepdim: bool) -> Placed:
    """Gives an op over some logical axes, or all; the others stay as they lie."""
    axes = tuple(sorted(x.axis(d) for d in (dim if dim else range(x.rank))))
    y = b.emit(cls, x=x.value, axes=axes, keepdims=keepdim)
    if keepdim:
        return x.with_value(y)
    kept = [axis for i, axis in enumerate(x.order) if i not in axes]
    return Placed(y, tuple(sorted(kept).index(axis) for axis in kept))


@lowers(aten.softmax.int)
def softmax(b: Builder, x: Placed, dim: int, *_: Any) -> Placed:
    """Gives a softmax over the last axis in memory, to which the wanted axis is brought."""
    wanted = dim % x.rank
    order = (*(axis for axis in x.order if axis != wanted), wanted)
    return Placed(b.emit(Softmax, x=b.arrange(x, order)), order)
