# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant
from pillion.ops import Mean, Mul, ReduceSum

LARGEST = 127


def rescale_sums(graph: Graph) -> Graph:
    """Turns a sum into a mean at the operand's scale and a product with the number of elements, for NPUs
    whose reductions have one scale for operand and result. Sums of a .tflite file stay, as their bytes
    are the file's."""
    if graph.arithmetic is not Arithmetic.CMSIS_NN:
        return graph
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda _, op: _sum_as_scaled_mean(op, names))


def _sum_as_scaled_mean(op: Op, names: UniqueNames) -> list[Op] | None:
    if not isinstance(op, ReduceSum) or op.count < 2 or op.x.dtype is not DType.INT8:
        return None
    if not isinstance(op.x.type.quant, PerTensor) or op.x.type.quant == op.y.type.quant:
        return None
    mean = Value(names.fresh(f"{op.name}_mean"), TensorType(op.y.shape, DType.INT8, op.x.type.quant))
    shape = (1,) * op.y.type.rank
    count = constant(
        names.fresh(f"{op.name}_count"), np.full(shape, LARGEST, np.int8), PerTensor(op.count / LARGEST, 0)
    )
    return [
        Mean(x=op.x, y=mean, axes=op.axes, keepdims=op.keepdims, source=op.source),
        Mul(a=mean, b=count, y=op.y, source=op.source),
    ]
