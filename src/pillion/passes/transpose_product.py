# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import math

import numpy as np

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Reshape, Transpose
from pillion.ops.matmul import BatchMatmul


@rewrite_pass(Transpose)
def transpose_product(op: Transpose, at: RewriteSweep) -> Replacement:
    """Replaces the transpose of a matrix product by the product of the transposed operands: (a · b)ᵀ = bᵀ ·
    aᵀ."""
    graph = at.graph
    before = graph.producers.get(op.x)
    view = before if isinstance(before, Reshape) and graph.only_user(before.y) is op else None
    product = graph.producers.get(view.x) if view else before
    if not isinstance(product, BatchMatmul) or graph.only_user(product.y) is not (view or op):
        return None
    if not _exchanges_rows_and_columns(product, op):
        return None
    batch, rows, columns = product.y.shape
    shape = (batch, columns, rows)
    y = op.y if op.y.shape == shape else op.y.like(at.names.fresh(f"{op.y.name}_product"), shape=shape)
    swapped = dataclasses.replace(
        product, a=product.b, b=product.a, adj_x=not product.adj_y, adj_y=not product.adj_x, y=y
    )
    return [swapped] if y is op.y else [swapped, Reshape(x=y, y=op.y, source=op.source)]


def _exchanges_rows_and_columns(product: BatchMatmul, move: Transpose) -> bool:
    """Whether the transpose exchanges exactly the axes that a reshape made of rows and of columns."""
    indices = np.arange(math.prod(product.y.shape), dtype=np.int64)
    exchanged = indices.reshape(product.y.shape).transpose(0, 2, 1)
    return np.array_equal(indices.reshape(move.x.shape).transpose(move.order).ravel(), exchanged.ravel())
