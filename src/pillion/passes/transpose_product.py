# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import math

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Reshape, Transpose
from pillion.ops.matmul import BatchMatmul


def transpose_product(graph: Graph) -> Graph:
    """Replaces the transpose of a matrix product by the product of the transposed operands: (a · b)ᵀ = bᵀ ·
    aᵀ."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda g, op: _transpose_operands(g, op, names))


def _transpose_operands(graph: Graph, op: Op, names: UniqueNames) -> list[Op] | None:
    before = graph.producers.get(op.x) if isinstance(op, Transpose) else None
    view = before if isinstance(before, Reshape) and graph.only_user(before.y) is op else None
    product = graph.producers.get(view.x) if view else before
    if not isinstance(op, Transpose) or not isinstance(product, BatchMatmul):
        return None
    if graph.only_user(product.y) is not (view or op) or not _exchanges_rows_and_columns(product, op):
        return None
    batch, rows, columns = product.y.shape
    shape = (batch, columns, rows)
    y = (
        op.y
        if op.y.shape == shape
        else Value(names.fresh(f"{op.y.name}_product"), dataclasses.replace(op.y.type, shape=shape))
    )
    swapped = dataclasses.replace(
        product, a=product.b, b=product.a, adj_x=not product.adj_y, adj_y=not product.adj_x, y=y
    )
    return [swapped] if y is op.y else [swapped, Reshape(x=y, y=op.y, source=op.source)]


def _exchanges_rows_and_columns(product: BatchMatmul, move: Transpose) -> bool:
    """Whether the transpose exchanges exactly the axes that a reshape made of rows and of columns."""
    indices = np.arange(math.prod(product.y.shape), dtype=np.int64)
    exchanged = indices.reshape(product.y.shape).transpose(0, 2, 1)
    return np.array_equal(indices.reshape(move.x.shape).transpose(move.order).ravel(), exchanged.ravel())
