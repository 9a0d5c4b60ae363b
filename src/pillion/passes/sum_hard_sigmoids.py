# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor, Value, constant_value
from pillion.ops import Add, Function, Lut, Mul
from pillion.ops.lut_tflite import activation_levels

OFFSET, SPAN = 3.0, 6.0
"""hardsigmoid(x) = min(max(x + 3, 0), 6) / 6"""
LARGEST = 127


@rewrite_pass(Lut)
def sum_hard_sigmoids(op: Lut, at: RewriteSweep) -> Replacement:
    """Turns a hard-sigmoid into a bounded x + 3 and a product with 1/6, for NPUs without the function.

    The sum's steps are six times the result's: only the sum rounds, the product is exact."""
    if op.function is not Function.HARDSIGMOID or op.y.dtype is DType.INT16:
        return None
    steps = PerTensor(SPAN * op.y.scale, op.y.zero_point)
    total = op.y.like(at.names.fresh(f"{op.name}_sum"), quant=steps)
    low, high = activation_levels("RELU6", steps)

    def number(name: str, real: float) -> Value:
        levels = np.full((1,) * op.y.type.rank, LARGEST, np.int8)
        return constant_value(at.names.fresh(f"{op.name}_{name}"), levels, PerTensor(real / LARGEST))

    three, sixth = number("three", OFFSET), number("sixth", 1 / SPAN)
    return [
        Add(a=op.x, b=three, y=total, low=low, high=high, source=op.source),
        Mul(a=total, b=sixth, y=op.y, source=op.source),
    ]
