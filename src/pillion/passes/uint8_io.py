# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Requantize
from pillion.passes.int8_io import int8_io
from pillion.passes.merge_rescaled import merge_rescaled

APART = 128
"""Difference between a tensor's zero points in uint8 and in int8."""


def unsigned(type: TensorType) -> TensorType:
    """Returns the uint8 type whose values represent the same real numbers as those of an int8 type."""
    quant = type.quant
    assert isinstance(quant, PerTensor)
    return TensorType(type.shape, DType.UINT8, PerTensor(quant.scale, quant.zero_point + APART))


def uint8_io(graph: Graph) -> Graph:
    """Makes inputs and outputs uint8: like `int8_io`, with zero points that are larger by 128."""
    graph = int8_io(graph)
    names = UniqueNames(list(graph.values))
    inside = {v: Value(names.fresh(f"{v.name}_i8"), v.type) for v in graph.inputs if _is_int8(v)}
    outer = {v: Value(v.name, unsigned(v.type)) for v in inside}
    first = [Requantize(x=outer[v], y=inside[v]) for v in inside]
    results = [v for v in dict.fromkeys(graph.outputs) if _is_int8(v) and v in graph.producers]
    uint8_results = {v: Value(v.name, unsigned(v.type)) for v in results}
    int8_results = {v: Value(names.fresh(f"{v.name}_i8"), v.type) for v in results}
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
