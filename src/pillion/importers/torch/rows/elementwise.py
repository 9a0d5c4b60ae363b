# SPDX-License-Identifier: Apache-2.0
"""Rows of elementwise operators on two tensors. The larger operand determines the result's layout."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from pillion.importers.torch.fx_nodes import fake_result
from pillion.importers.torch.layout import Builder, LayoutValue, Order
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import aten, lowers
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Add, Div, Maximum, Minimum, Mul, Prelu, Sub


def binary(
    b: Builder, first: LayoutValue, second: LayoutValue, *, cls: type[Op], **fields: Any
) -> LayoutValue:
    """Emits an op on two operands, broadcast over logical axes, in the layout of the larger one."""
    (left, right), order = broadcast_operands(b, first, second)
    return LayoutValue(b.emit(cls, a=left, b=right, **fields), order)


def broadcast_operands(b: Builder, *operands: LayoutValue) -> tuple[list[Value], Order]:
    """Returns the operands in one layout and of one rank, ready for broadcasting, and that layout."""
    rank = max(operand.rank for operand in operands)
    lead = operands[0]
    for candidate in operands[1:]:
        lead = lead if _determines_layout(lead, candidate) else candidate
    extra = rank - lead.rank
    order = (*range(extra), *(axis + extra for axis in lead.order))
    return [_with_rank(b, operand, order) for operand in operands], order


def _determines_layout(first: LayoutValue, second: LayoutValue) -> bool:
    """Whether the first operand determines the layout: constants never do; otherwise the larger one, the first if
    equal."""
    if first.value.is_constant != second.value.is_constant:
        return second.value.is_constant
    return first.value.type.elements >= second.value.type.elements


def _with_rank(b: Builder, x: LayoutValue, order: Order) -> Value:
    """Arranges an operand in `order`, with leading axes of size 1 added."""
    extra = len(order) - x.rank
    inner = tuple(axis - extra for axis in order if axis >= extra)
    arranged = b.arrange(x, inner)
    shape = iter(arranged.shape)
    return b.reshape(arranged, tuple(next(shape) if axis >= extra else 1 for axis in order))


PAIRS: Mapping[Any, type[Op]] = {
    aten.add.Tensor: Add,
    aten.sub.Tensor: Sub,
    aten.mul.Tensor: Mul,
    aten.div.Tensor: Div,
    aten.minimum.default: Minimum,
    aten.maximum.default: Maximum,
}
"""Operators of two tensors."""


def integer_refusal(node: Node) -> str:
    """Returns why a call with an integer result is refused; empty for real numbers and booleans."""
    dtype = fake_result(node).dtype
    return "" if dtype.is_floating_point or dtype == torch.bool else f"its result is {dtype}"


for _target, _op in PAIRS.items():
    logic = {"numbers": True, "refusal": integer_refusal} if _op in (Minimum, Maximum) else {}
    lowers(_target, quantized=rule_of_op(_op, operands=(0, 1), **logic))(partial(binary, cls=_op))


@lowers(aten.prelu.default, quantized=rule_of_op(Prelu, weight=1))
def prelu(b: Builder, x: LayoutValue, weight: LayoutValue) -> LayoutValue:
    """Lowers a leaky relu with one slope, or one per index of logical axis 1."""
    slope = weight.value
    if slope.type.elements > 1:
        behind = x.rank - 1 - x.axis(1)
        slope = b.reshape(slope, (slope.type.elements, *(1,) * behind))
    return x.with_value(b.emit(Prelu, x=x.value, slope=slope))
