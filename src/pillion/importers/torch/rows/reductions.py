# SPDX-License-Identifier: Apache-2.0
"""Rows of reductions over axes, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch.fx import Node

from pillion.importers.torch.fx_nodes import named_argument
from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.rows.elementwise import integer_refusal
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import Lowering, aten, lowers
from pillion.ir.op import Op
from pillion.ir.types import PerTensor
from pillion.ops import LogSoftmax, Mean, ReduceMax, ReduceMin, ReduceSum, Softmax
from pillion.ops.log_softmax import OUTPUT as LOG_SOFTMAX_OUTPUT
from pillion.ops.softmax import OUTPUT as SOFTMAX_OUTPUT


def _cast_refusal(node: Node) -> str:
    dtype = named_argument(node, "dtype")
    return "" if dtype is None or node.meta["val"].dtype == dtype else f"it casts to {dtype}"


REDUCTIONS: dict[Any, tuple[type[Op], dict[str, Any]]] = {
    aten.mean.dim: (Mean, {"refusal": _cast_refusal}),
    aten.sum.dim_IntList: (ReduceSum, {"refusal": _cast_refusal}),
    aten.amax.default: (ReduceMax, {"numbers": True, "refusal": integer_refusal}),
    aten.amin.default: (ReduceMin, {"numbers": True, "refusal": integer_refusal}),
}


def emit_reduction(
    b: Builder, x: LayoutValue, dim: Sequence[int] | None = None, keepdim: bool = False, *, cls: type[Op]
) -> LayoutValue:
    """Emits a reduction over some logical axes, or all, and keeps the layout of the remaining axes."""
    axes = tuple(sorted(x.axis(d) for d in (dim if dim else range(x.rank))))
    y = b.emit(cls, x=x.value, axes=axes, keepdims=keepdim)
    if keepdim:
        return x.with_value(y)
    remaining = [axis for i, axis in enumerate(x.order) if i not in axes]
    return LayoutValue(y, tuple(sorted(remaining).index(axis) for axis in remaining))


for _target, (_op, _fields) in REDUCTIONS.items():
    lowers(_target, quantized=rule_of_op(_op, **_fields))(partial(emit_reduction, cls=_op))


def _softmax_lowering(cls: type[Op]) -> Lowering:
    """Returns the lowering of a softmax or log softmax, which is over the last axis in memory."""

    def lower(b: Builder, x: LayoutValue, dim: int, *_: Any) -> LayoutValue:
        wanted = dim % x.rank
        order = (*(axis for axis in x.order if axis != wanted), wanted)
        return LayoutValue(b.emit(cls, x=b.arrange(x, order)), order)

    return lower


SOFTMAXES: dict[Any, tuple[type[Op], PerTensor]] = {
    aten.softmax.int: (Softmax, SOFTMAX_OUTPUT),
    aten.log_softmax.int: (LogSoftmax, LOG_SOFTMAX_OUTPUT),
}
for _target, (_op, _output) in SOFTMAXES.items():
    _fixed = rule_of_op(_op, fixed=(_output.scale, _output.zero_point), refusal=_cast_refusal)
    lowers(_target, quantized=_fixed)(_softmax_lowering(_op))
