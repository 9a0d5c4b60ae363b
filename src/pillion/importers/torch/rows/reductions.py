# SPDX-License-Identifier: Apache-2.0
"""Rows of reductions over axes, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from pillion.importers.torch.fx_nodes import named_argument
from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import aten, lowers
from pillion.ir.op import Op
from pillion.ops import LogSoftmax, Mean, ReduceMax, ReduceMin, ReduceSum, Softmax
from pillion.ops.log_softmax import OUTPUT as LOG_SOFTMAX_OUTPUT
from pillion.ops.softmax import OUTPUT as SOFTMAX_OUTPUT


def _cast_refusal(node: Node) -> str:
    dtype = named_argument(node, "dtype")
    return "" if dtype is None or node.meta["val"].dtype == dtype else f"it casts to {dtype}"


def _order_refusal(node: Node) -> str:
    dtype = node.meta["val"].dtype
    return "" if dtype.is_floating_point or dtype == torch.bool else f"its result is {dtype}"


@lowers(aten.mean.dim, quantized=rule_of_op(Mean, refusal=_cast_refusal))
def mean(b: Builder, x: LayoutValue, dim: Sequence[int] | None, keepdim: bool = False) -> LayoutValue:
    """Lowers the mean over some axes."""
    return emit_reduction(b, Mean, x, dim, keepdim)


@lowers(aten.sum.dim_IntList, quantized=rule_of_op(ReduceSum, refusal=_cast_refusal))
def sum_dim(b: Builder, x: LayoutValue, dim: Sequence[int] | None, keepdim: bool = False) -> LayoutValue:
    """Lowers the sum over some axes."""
    return emit_reduction(b, ReduceSum, x, dim, keepdim)


@lowers(aten.amax.default, quantized=rule_of_op(ReduceMax, numbers=True, refusal=_order_refusal))
def amax(b: Builder, x: LayoutValue, dim: Sequence[int] = (), keepdim: bool = False) -> LayoutValue:
    """Lowers the maximum over some axes."""
    return emit_reduction(b, ReduceMax, x, dim, keepdim)


@lowers(aten.amin.default, quantized=rule_of_op(ReduceMin, numbers=True, refusal=_order_refusal))
def amin(b: Builder, x: LayoutValue, dim: Sequence[int] = (), keepdim: bool = False) -> LayoutValue:
    """Lowers the minimum over some axes."""
    return emit_reduction(b, ReduceMin, x, dim, keepdim)


def emit_reduction(
    b: Builder, cls: type[Op], x: LayoutValue, dim: Sequence[int] | None, keepdim: bool
) -> LayoutValue:
    """Emits a reduction over some logical axes, or all, and keeps the layout of the others."""
    axes = tuple(sorted(x.axis(d) for d in (dim if dim else range(x.rank))))
    y = b.emit(cls, x=x.value, axes=axes, keepdims=keepdim)
    if keepdim:
        return x.with_value(y)
    kept = [axis for i, axis in enumerate(x.order) if i not in axes]
    return LayoutValue(y, tuple(sorted(kept).index(axis) for axis in kept))


@lowers(
    aten.softmax.int,
    quantized=rule_of_op(
        Softmax, fixed=(SOFTMAX_OUTPUT.scale, SOFTMAX_OUTPUT.zero_point), refusal=_cast_refusal
    ),
)
def softmax(b: Builder, x: LayoutValue, dim: int, *_: Any) -> LayoutValue:
    """Lowers a softmax over the last axis in memory."""
    return _over_last_axis(b, Softmax, x, dim)


@lowers(
    aten.log_softmax.int,
    quantized=rule_of_op(
        LogSoftmax, fixed=(LOG_SOFTMAX_OUTPUT.scale, LOG_SOFTMAX_OUTPUT.zero_point), refusal=_cast_refusal
    ),
)
def log_softmax(b: Builder, x: LayoutValue, dim: int, *_: Any) -> LayoutValue:
    """Lowers a log softmax over the last axis in memory."""
    return _over_last_axis(b, LogSoftmax, x, dim)


def _over_last_axis(b: Builder, cls: type[Op], x: LayoutValue, dim: int) -> LayoutValue:
    wanted = dim % x.rank
    order = (*(axis for axis in x.order if axis != wanted), wanted)
    return LayoutValue(b.emit(cls, x=b.arrange(x, order)), order)
