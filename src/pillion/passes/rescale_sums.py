# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from pillion.ir.numerics import Arithmetic
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor, constant_value
from pillion.ops import Mean, Mul, ReduceSum

LARGEST = 127


@rewrite_pass(ReduceSum)
def rescale_sums(op: ReduceSum, at: RewriteSweep) -> Replacement:
    """Turns a sum into a mean at the operand's scale and a product with the number of elements, for NPUs
    whose reductions have one scale for operand and result. Sums of a .tflite file stay, as their bytes
    are the file's."""
    is_own = at.graph.arithmetic is Arithmetic.CMSIS_NN and op.x.dtype is DType.INT8 and op.count >= 2
    if not is_own or not isinstance(op.x.type.quant, PerTensor) or op.x.type.quant == op.y.type.quant:
        return None
    mean = op.y.like(at.names.fresh(f"{op.name}_mean"), quant=op.x.type.quant)
    levels = np.full((1,) * op.y.type.rank, LARGEST, np.int8)
    count = constant_value(at.names.fresh(f"{op.name}_count"), levels, PerTensor(op.count / LARGEST))
    return [
        Mean(x=op.x, y=mean, axes=op.axes, keepdims=op.keepdims, source=op.source),
        Mul(a=mean, b=count, y=op.y, source=op.source),
    ]
