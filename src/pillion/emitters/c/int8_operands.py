# SPDX-License-Identifier: Apache-2.0
"""Layers that make 16 bits from 8: quantization widens the operand first, and many kernels do both at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.c.layers16 import LEAST_RIGHT, right_shifts
from pillion.ir import numerics
from pillion.ir.graph import Graph
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite, rewrite_pass
from pillion.ir.types import DType, PerChannel, PerTensor, Value, constant_value
from pillion.ir.verdict import all_ok
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Requantize, Reshape, Scan, Slice, Transpose

LAYERS = Conv2d, DepthwiseConv2d, Linear
MOVES = Reshape, Slice, Transpose
MOST_BITS = 7
"""The bits that a widened operand has left."""


@rewrite_pass(*MOVES, also_in_loops=True)
def widen_after_moves(op: Any, at: RewriteSweep) -> Replacement:
    """Moves int8 operands before they are widened without a change of scale."""
    before = at.producers.get(op.x)
    if not isinstance(before, Requantize) or not _keeps_numbers(before):
        return None
    moved = before.x.like(at.names.fresh(f"{op.name}_8"), shape=op.y.shape)
    return [replace(op, x=before.x, y=moved), replace(before, x=moved, y=op.y)]


def read_int8_operands(graph: Graph, isa: Isa) -> Graph:
    """Lets layers with 16-bit results read int8 operands directly if widening would not change their scale, and if
    the instruction set has kernels for that, or none for the widened operand either. Results stay the same."""

    def is_taken(op: Any, by: Isa) -> bool:
        kernels = (kernel for kernel in KERNELS_OF[by] if kernel.op is type(op))
        return any(all_ok(kernel.check(op, graph.arithmetic)) for kernel in kernels)

    def reads_int8(op: Any, at: RewriteSweep) -> Replacement:
        if isinstance(op, Scan):
            body = read_int8_operands(op.body, isa)
            return None if body is op.body else [replace(op, body=body)]
        before = at.producers.get(op.x) if isinstance(op, LAYERS) else None
        if not isinstance(before, Requantize) or not _keeps_numbers(before):
            return None
        joined = replace(op, x=before.x)
        if is_taken(joined, isa):
            return [joined]
        widened = _with_finer_operand(op, before, at) or (before, op)
        if not is_taken(widened[-1], isa) and is_taken(joined, Isa.PORTABLE):
            return [joined]
        return widened if widened[-1] is not op else None

    return rewrite(graph, reads_int8)


def _keeps_numbers(op: Requantize) -> bool:
    """Whether every number of an int8 tensor becomes a 16-bit number of the same meaning."""
    types = (op.x.dtype, op.y.dtype)
    return types == (DType.INT8, DType.INT16) and op.x.scale == op.y.scale and op.y.zero_point == 0


def _with_finer_operand(op: Any, before: Requantize, at: RewriteSweep) -> Replacement:
    """Makes the steps of a widened operand finer, by a power of two and with the bias, where the ratio of scales is too large
    for the kernels of 16-bit layers. Results stay the same."""
    rights = right_shifts(op)
    bits = LEAST_RIGHT - int(rights.min()) if rights.size else 0
    if not 0 < bits <= MOST_BITS or not op.bias.is_constant or op.explicit:
        return None
    bias = op.bias.constant.astype(np.int64) << bits
    if np.abs(bias).max(initial=0) > numerics.INT32_MAX:
        return None
    steps = PerChannel(tuple((op.bias.channel_scales / 2**bits).tolist()), 0)
    finer = replace(op.x.type, quant=PerTensor(op.x.scale / 2**bits))
    x = Value(at.names.fresh(f"{op.x.name}_finer"), finer)
    shifted = constant_value(at.names.fresh(f"{op.bias.name}_finer"), bias.astype(np.int32), steps)
    return [replace(before, y=x), replace(op, x=x, bias=shifted)]
