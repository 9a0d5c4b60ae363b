# SPDX-License-Identifier: Apache-2.0
"""Rows of linear layers and matrix products."""

from __future__ import annotations

from pillion.importers.torch.layout import Builder, LayoutValue, Order, from_logical_order
from pillion.importers.torch.rows.convolutions import bias_or_zeros, computed_weights_refusal
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import aten, lowers, require_constant
from pillion.ops import BatchMatmul, Linear

SWAPPED: Order = (0, 2, 1)
"""Layout of a matrix whose rows and columns are exchanged."""


@lowers(aten.linear.default, quantized=rule_of_op(Linear, weight=1, axis=0, refusal=computed_weights_refusal))
def linear(b: Builder, x: LayoutValue, weight: LayoutValue, bias: LayoutValue | None = None) -> LayoutValue:
    """Lowers a fully connected layer over the last axis."""
    require_constant("linear", "weight", weight)
    return from_logical_order(
        b.emit(Linear, x=b.plain(x), weights=b.plain(weight), bias=bias_or_zeros(b, bias, weight.shape[0]))
    )


@lowers(aten.bmm.default, quantized=rule_of_op(BatchMatmul, operands=(0, 1)))
def bmm(b: Builder, first: LayoutValue, second: LayoutValue) -> LayoutValue:
    """Lowers a matrix product. The op reads transposed operands in place."""
    left, right = (x if x.order == SWAPPED else from_logical_order(b.plain(x)) for x in (first, second))
    adj_x, adj_y = left.order == SWAPPED, right.order == SWAPPED
    return from_logical_order(b.emit(BatchMatmul, a=left.value, b=right.value, adj_x=adj_x, adj_y=adj_y))
