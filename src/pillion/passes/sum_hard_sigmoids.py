# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant
from pillion.ops import Add, Function, Lut, Mul
from pillion.ops.lut_tflite import activation_levels

OFFSET, SPAN = 3.0, 6.0
"""hardsigmoid(x) = min(max(x + 3, 0), 6) / 6"""
LARGEST = 127


def sum_hard_sigmoids(graph: Graph) -> Graph:
    """Turns a hard-sigmoid into a bounded x + 3 and a product with 1/6, for NPUs without the function.

    The sum's steps are six times those of the result, so only the sum rounds; the product is exact."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda _, op: _decompose_hard_sigmoid(op, names))


def _decompose_hard_sigmoid(op: Op, names: UniqueNames) -> list[Op] | None:
    if not isinstance(op, Lut) or op.function is not Function.HARDSIGMOID:
        return None
    y = op.y
    steps = PerTensor(SPAN * y.scale, y.zero_point)
    total = Value(names.fresh(f"{op.name}_sum"), TensorType(y.shape, DType.INT8, steps))
    low, high = activation_levels("RELU6", steps)
    add = Add(
        a=op.x,
        b=_scalar_constant(names.fresh(f"{op.name}_three"), OFFSET, y.type.rank),
        y=total,
        low=low,
        high=high,
        source=op.source,
    )
    sixth = _scalar_constant(names.fresh(f"{op.name}_sixth"), 1 / SPAN, y.type.rank)
    return [add, Mul(a=total, b=sixth, y=y, source=op.source)]


def _scalar_constant(name: str, real: float, rank: int) -> Value:
    return constant(name, np.full((1,) * rank, LARGEST, np.int8), PerTensor(real / LARGEST, 0))
