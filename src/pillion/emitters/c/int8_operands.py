# SPDX-License-Identifier: Apache-2.0
"""Layers that make 16 bits from 8: quantization widens the operand first, and some cores do both at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.graph import Graph
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite
from pillion.ir.types import DType
from pillion.ir.verdict import all_ok
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Requantize


def read_int8_operands(graph: Graph, isa: Isa) -> Graph:
    """Lets layers with 16-bit results read int8 operands as they are, where they would be widened without a change of
    scale and the instruction set has kernels for that. Results stay the same."""

    def reads_int8(op: Any, at: RewriteSweep) -> Replacement:
        before = at.producers.get(op.x) if isinstance(op, (Conv2d, DepthwiseConv2d, Linear)) else None
        if not isinstance(before, Requantize) or not _keeps_numbers(before):
            return None
        joined = replace(op, x=before.x)
        kernels = (k for k in KERNELS_OF[isa] if k.op is type(op))
        return [joined] if any(all_ok(k.check(joined, graph.arithmetic)) for k in kernels) else None

    return rewrite(graph, reads_int8) if isa is not Isa.PORTABLE else graph


def _keeps_numbers(op: Requantize) -> bool:
    """Whether every number of an int8 tensor becomes a 16-bit number of the same meaning."""
    types = (op.x.dtype, op.y.dtype)
    return types == (DType.INT8, DType.INT16) and op.x.scale == op.y.scale and op.y.zero_point == 0
