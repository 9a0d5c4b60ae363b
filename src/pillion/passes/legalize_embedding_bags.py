# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from pillion.errors import PillionError
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor, constant_value
from pillion.ops import EmbeddingBag, Gather, Mean, ReduceSum, Requantize


@rewrite_pass(EmbeddingBag, also_in_loops=True)
def legalize_embedding_bags(op: EmbeddingBag, at: RewriteSweep) -> Replacement:
    """Turns embedding bags into a lookup in a table with one scale, and a sum or mean, for formats, runtimes
    and arithmetics without bags. Rows of small values become coarser."""
    if op.y.dtype is not DType.INT8:
        return None
    if op.table.dtype is DType.INT4:
        raise PillionError(
            f"the table of `{op.name}` has 4 bits, and a scale for each row",
            rule="tables of .tflite and .pte files have one scale; LiteRT makes real numbers of rows with scales of their own",
            here=f"`{op.table.name}`: {op.table}",
            help="-o FOLDER, -o NAME.plm, --kernels pillion for a .pte, or leave --max-flash out",
        )
    scales = op.table.channel_scales
    quant = PerTensor(float(scales.max()))
    levels = np.round(op.table.constant.astype(np.float64) * (scales / quant.scale)[:, None])
    table = constant_value(at.names.fresh(f"{op.table.name}_plain"), np.asarray(levels, np.int8), quant)
    shape = (*op.indices.shape, op.table.shape[-1])
    rows = op.y.like(at.names.fresh(f"{op.name}_rows"), shape=shape, quant=quant)
    lookup = Gather(x=table, indices=op.indices, y=rows, axis=0, source=op.source)
    if op.is_lookup:
        return [lookup, Requantize(x=rows, y=op.y, to=op.y.dtype, source=op.source)]
    reduction = Mean if op.mean else ReduceSum
    return [lookup, reduction(x=rows, y=op.y, axes=(len(shape) - 2,), keepdims=False, source=op.source)]
