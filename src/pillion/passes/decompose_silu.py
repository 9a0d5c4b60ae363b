# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor
from pillion.ops import Function, Lut, Mul


@rewrite_pass(Lut)
def decompose_silu(op: Lut, at: RewriteSweep) -> Replacement:
    """Turns a SiLU into a sigmoid and its product with the operand, for NPUs and files without the function.

    The sigmoid has the steps that TFLite fixes, 1/256."""
    if op.function is not Function.SILU or op.y.dtype is DType.INT16:
        return None
    scale, zero_point = Function.SIGMOID.fixed_output or (1 / 256, -128)
    gate = op.y.like(at.names.fresh(f"{op.name}_sigmoid"), quant=PerTensor(scale, zero_point))
    return [replace(op, function=Function.SIGMOID, y=gate), Mul(a=op.x, b=gate, y=op.y, source=op.source)]
