# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Requantize
from pillion.ops.conv import widens


@rewrite_pass(Conv2d, DepthwiseConv2d, Linear, also_in_loops=True)
def widen_operands(op: Any, at: RewriteSweep) -> Replacement:
    """Widens the int8 operands of layers with 16-bit results, for formats whose layers read and make one width. Results stay
    the same."""
    if not widens(op):
        return None
    type = replace(op.x.type, dtype=DType.INT16, quant=PerTensor(op.x.scale))
    x = Value(at.names.fresh(f"{op.x.name}_16"), type)
    return [Requantize(x=op.x, y=x, to=DType.INT16), replace(op, x=x)]
