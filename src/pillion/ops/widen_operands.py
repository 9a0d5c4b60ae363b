# SPDX-License-Identifier: Apache-2.0
"""Layers that make 16 bits from 8, for formats whose layers read and make one width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.formats import Requantize
from pillion.ops.linear import Linear


@rewrite_pass(Conv2d, DepthwiseConv2d, Linear, also_in_loops=True)
def widen_operands(op: Any, at: RewriteSweep) -> Replacement:
    """Widens the int8 operands of layers with 16-bit results. Results stay the same."""
    if not op.widens:
        return None
    type = replace(op.x.type, dtype=DType.INT16, quant=PerTensor(op.x.scale))
    x = Value(at.names.fresh(f"{op.x.name}_16"), type)
    return [Requantize(x=op.x, y=x, to=DType.INT16), replace(op, x=x)]
