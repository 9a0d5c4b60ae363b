# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Value
from pillion.ops import Requantize


def merge_rescaled(graph: Graph) -> Graph:
    """Merges a requantize with a neighbouring conversion between uint8 and int8, and removes requantizes
    that change nothing."""
    producers: dict[Value, Op] = {}
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for old in graph.ops:
        op = old.substitute(same)
        if isinstance(op, Requantize):
            op = _merge_requantize(op, producers)
            if op.is_identity and not graph.is_output(op.y):
                same[op.y] = op.x
                continue
        ops.append(op)
        producers.update((result, op) for result in op.results)
    return graph.replace(ops=tuple(ops)).without_dead_ops()


def _merge_requantize(op: Requantize, producers: Mapping[Value, Op]) -> Requantize:
    before = producers.get(op.x)
    if isinstance(before, Requantize) and (keeps_numbers(before) or keeps_numbers(op)):
        return dataclasses.replace(op, x=before.x)
    return op


def keeps_numbers(op: Requantize) -> bool:
    """Whether every number keeps its meaning: the scale stays, and the zero point moves with the element
    type."""
    x, y = op.x, op.y
    if not (isinstance(x.type.quant, PerTensor) and isinstance(y.type.quant, PerTensor)):
        return False
    offsets = (x.zero_point - x.dtype.bounds[0], y.zero_point - y.dtype.bounds[0])
    return x.scale == y.scale and offsets[0] == offsets[1]
