# SPDX-License-Identifier: Apache-2.0
"""Rows of linear layers and matrix products."""

from __future__ import annotations

from pillion.importers.torch.layout import Builder, Order, Placed, plain
from pillion.importers.torch.rows.convolutions import bias_or_zeros, computed_weights
from pillion.importers.torch.rows.quantization import row
from pillion.importers.torch.rows.table import aten, lowers, require_constant
from pillion.ops import BatchMatmul, Linear

SWAPPED: Order = (0, 2, 1)
"""Layout of a matrix whose rows and columns are exchanged."""


@lowers(aten.linear.default, quantized=row(Linear, weight=1, axis=0, refusal=computed_weights))
def linear(b: Builder, x: Placed, weight: Placed, bias: Placed | None = None) -> Placed:
    """Lowers a fully connected layer over the last axis."""
    require_constant("linear", "weight", weight)
    return plain(
        b.emit(Linear, x=b.plain(x), weights=b.plain(weight), bias=bias_or_zeros(b, bias, weight.shape[0]))
    )


@lowers(aten.bmm.default, quantized=row(BatchMatmul, operands=(0, 1)))
def bmm(b: Builder, first: Placed, second: Placed) -> Placed:
    """Lowers a matrix product. The op reads transposed operands in place."""
    left, right = (x if x.order == SWAPPED else plain(b.plain(x)) for x in (first, second))
    adj_x, adj_y = left.order == SWAPPED, right.order == SWAPPED
    return plain(b.emit(BatchMatmul, a=left.value, b=right.value, adj_x=adj_x, adj_y=adj_y))
