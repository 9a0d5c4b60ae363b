# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor
from pillion.ops import Lut, Requantize


@rewrite_pass(Lut)
def legalize_functions(op: Lut, at: RewriteSweep) -> Replacement:
    """Computes sigmoid and tanh in the steps that TFLite fixes (1/256, 1/128), and requantizes their results."""
    fixed = PerTensor(*op.function.fixed_output) if op.function.fixed_output else None
    if fixed is None or op.y.type.quant in (fixed, None) or op.y.dtype is DType.INT16:
        return None
    fixed_value = op.y.like(at.names.fresh(f"{op.y.name}_usual"), quant=fixed)
    return [op.substitute({op.y: fixed_value}), Requantize(x=fixed_value, y=op.y, source=op.source)]
