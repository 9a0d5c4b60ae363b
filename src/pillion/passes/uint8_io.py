# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops import Requantize
from pillion.passes.int8_io import int8_io
from pillion.passes.merge_rescaled import merge_rescaled

APART = 128
"""Difference between a tensor's zero points in uint8 and in int8."""


def _uint8_counterpart(value: Value) -> Value:
    """Returns the uint8 value that represents the same real numbers as an int8 value."""
    quant = PerTensor(value.scale, value.zero_point + APART)
    return value.like(value.name, dtype=DType.UINT8, quant=quant)


def uint8_io(graph: Graph) -> Graph:
    """Makes inputs and outputs uint8: like `int8_io`, with zero points that are larger by 128."""
    graph = int8_io(graph)
    names = UniqueNames(list(graph.values))
    inside = {v: v.like(names.fresh(f"{v.name}_i8")) for v in graph.inputs if _is_int8(v)}
    outer = {v: _uint8_counterpart(v) for v in inside}
    first = [Requantize(x=outer[v], y=inside[v]) for v in inside]
    results = [v for v in dict.fromkeys(graph.outputs) if _is_int8(v) and v in graph.producers]
    uint8_results = {v: _uint8_counterpart(v) for v in results}
    int8_results = {v: v.like(names.fresh(f"{v.name}_i8")) for v in results}
    moved = graph.substitute({**inside, **int8_results})
    last: list[Op] = [Requantize(x=int8_results[v], y=uint8_results[v], to=DType.UINT8) for v in results]
    return merge_rescaled(
        moved.replace(
            inputs=tuple(outer.get(v, v) for v in graph.inputs),
            ops=(*first, *moved.ops, *last),
            outputs=tuple(uint8_results.get(v) or outer.get(v, v) for v in graph.outputs),
        )
    )


def _is_int8(value: Value) -> bool:
    return value.dtype is DType.INT8 and isinstance(value.type.quant, PerTensor)
