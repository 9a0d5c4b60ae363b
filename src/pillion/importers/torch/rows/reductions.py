# SPDX-License-Identifier: Apache-2.0
"""Rows of reductions over axes, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from pillion.importers.torch.fx_nodes import named_argument
from pillion.importers.torch.layout import Builder, Placed
from pillion.importers.torch.rows.quantization import row
from pillion.importers.torch.rows.table import aten, lowers
from pillion.ir.op import Op
from pillion.ops import LogSoftmax, Mean, ReduceMax, ReduceMin, ReduceSum, Softmax
from pillion.ops.log_softmax import OUTPUT as LOG_SOFTMAX_OUTPUT
from pillion.ops.softmax import OUTPUT as SOFTMAX_OUTPUT


def _cast(node: Node) -> str:
    dtype = named_argument(node, "dtype")
    return "" if dtype is None or node.meta["val"].dtype == dtype else f"it casts to {dtype}"


def _ordered(node: Node) -> str:
    dtype = node.meta["val"].dtype
    return "" if dtype.is_floating_point or dtype == torch.bool else f"its result is {dtype}"


@lowers(aten.mean.dim, quantized=row(Mean, refusal=_cast))
def mean(b: Builder, x: Placed, dim: Sequence[int] | None, keepdim: bool = False) -> Placed:
    """Lowers the mean over some axes."""
    return reduced(b, Mean, x, dim, keepdim)


@lowers(aten.sum.dim_IntList, quantized=row(ReduceSum, refusal=_cast))
def sum_dim(b: Builder, x: Placed, dim: Sequence[int] | None, keepdim: bool = False) -> Placed:
    """Lowers the sum over some axes."""
    return reduced(b, ReduceSum, x, dim, keepdim)


@lowers(aten.amax.default, quantized=row(ReduceMax, numbers=True, refusal=_ordered))
def amax(b: Builder, x: Placed, dim: Sequence[int] = (), keepdim: bool = False) -> Placed:
    """Lowers the maximum over some axes."""
    return reduced(b, ReduceMax, x, dim, keepdim)


@lowers(aten.amin.default, quantized=row(ReduceMin, numbers=True, refusal=_ordered))
def amin(b: Builder, x: Placed, dim: Sequence[int] = (), keepdim: bool = False) -> Placed:
    """Lowers the minimum over some axes."""
    return reduced(b, ReduceMin, x, dim, keepdim)


def reduced(b: Builder, cls: type[Op], x: Placed, dim: Sequence[int] | None, keepdim: bool) -> Placed:
    """Emits a reduction over some logical axes, or all, and keeps the layout of the others."""
    axes = tuple(sorted(x.axis(d) for d in (dim if dim else range(x.rank))))
    y = b.emit(cls, x=x.value, axes=axes, keepdims=keepdim)
    if keepdim:
        return x.with_value(y)
    kept = [axis for i, axis in enumerate(x.order) if i not in axes]
    return Placed(y, tuple(sorted(kept).index(axis) for axis in kept))


@lowers(
    aten.softmax.int,
    quantized=row(Softmax, fixed=(SOFTMAX_OUTPUT.scale, SOFTMAX_OUTPUT.zero_point), refusal=_cast),
)
def softmax(b: Builder, x: Placed, dim: int, *_: Any) -> Placed:
    """Lowers a softmax over the last axis in memory."""
    return _over_last_axis(b, Softmax, x, dim)


@lowers(
    aten.log_softmax.int,
    quantized=row(LogSoftmax, fixed=(LOG_SOFTMAX_OUTPUT.scale, LOG_SOFTMAX_OUTPUT.zero_point), refusal=_cast),
)
def log_softmax(b: Builder, x: Placed, dim: int, *_: Any) -> Placed:
    """Lowers a log softmax over the last axis in memory."""
    return _over_last_axis(b, LogSoftmax, x, dim)


def _over_last_axis(b: Builder, cls: type[Op], x: Placed, dim: int) -> Placed:
    wanted = dim % x.rank
    order = (*(axis for axis in x.order if axis != wanted), wanted)
    return Placed(b.emit(cls, x=b.arrange(x, order)), order)
