# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant
from pillion.ops import EmbeddingBag, Gather, Mean, ReduceSum, Scan


def legalize_embedding_bags(graph: Graph) -> Graph:
    """Turns embedding bags into a lookup in a table with one scale and a sum or mean, for formats, runtimes
    and arithmetics without bags. Rows of small values become coarser."""
    names = UniqueNames(list(graph.values))

    def rule(_: Graph, op: Op) -> list[Op] | None:
        if isinstance(op, Scan):
            return [dataclasses.replace(op, body=legalize_embedding_bags(op.body))]
        return (
            _decompose_bag(op, names) if isinstance(op, EmbeddingBag) and op.y.dtype is DType.INT8 else None
        )

    return rewrite(graph, rule) if _has_bags(graph) else graph


def _has_bags(graph: Graph) -> bool:
    return any(
        isinstance(op, EmbeddingBag) or (isinstance(op, Scan) and _has_bags(op.body)) for op in graph.ops
    )


def _decompose_bag(op: EmbeddingBag, names: UniqueNames) -> list[Op]:
    scales = op.table.channel_scales
    quant = PerTensor(float(scales.max()))
    levels = np.round(op.table.constant.astype(np.float64) * (scales / quant.scale)[:, None])
    table = constant(names.fresh(f"{op.table.name}_plain"), np.asarray(levels, np.int8), quant)
    shape = (*op.indices.shape, op.table.shape[-1])
    rows = Value(names.fresh(f"{op.name}_rows"), TensorType(shape, DType.INT8, quant))
    reduction = Mean if op.mean else ReduceSum
    return [
        Gather(x=table, indices=op.indices, y=rows, axis=0, source=op.source),
        reduction(x=rows, y=op.y, axes=(len(shape) - 2,), keepdims=False, source=op.source),
    ]
