# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from pillion.ir.graph import Graph
from pillion.ir.numerics import saturate
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops import Add, WideAdd

STEPS = 256
"""Steps of 16 bits in one of 8."""


def narrow_sums(graph: Graph) -> Graph:
    """Gives sums of 16 bits 8, for formats and runtimes that have no others: of each step of int8, 256 are no longer told apart."""
    wide = {op.y for op in graph.ops if isinstance(op, WideAdd) and op.y.dtype is DType.INT16}
    narrow = {value: _narrow(value) for value in wide}
    ops = tuple(_as_add(op) if isinstance(op, WideAdd) else op for op in graph.ops)
    return graph.replace(ops=ops).substitute(narrow) if ops != graph.ops else graph


def _narrow(value: Value) -> Value:
    levels = int(saturate(round(value.zero_point / STEPS), *DType.INT8.bounds))
    quant = PerTensor(value.scale * STEPS, levels)
    return replace(value, type=replace(value.type, dtype=DType.INT8, quant=quant))


def _as_add(op: WideAdd) -> Op:
    return Add(a=op.a, b=op.b, y=op.y, source=op.source)
