# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.ops import Dequantize, Quantize


def int8_io(graph: Graph) -> Graph:
    """Makes inputs and outputs the integers themselves: the quantize and dequantize ops at the border go."""
    for value in graph.inputs:
        user = graph.only_user(value)
        if isinstance(user, Quantize):
            graph = _renamed(graph, user, Value(value.name, user.y.type), user.y)
    for value in graph.outputs:
        maker = graph.producers.get(value)
        if isinstance(maker, Dequantize) and maker.x in graph.producers and not graph.is_output(maker.x):
            outputs = tuple(maker.x if v is value else v for v in graph.outputs)
            graph = graph.replace(outputs=outputs).without_dead_ops()
    return graph


def _renamed(graph: Graph, quantize: Quantize, integers: Value, made: Value) -> Graph:
    """The graph with `integers` as input instead of what is quantized."""
    inputs = tuple(integers if v is quantize.x else v for v in graph.inputs)
    ops = tuple(op for op in graph.ops if op is not quantize)
    return graph.replace(inputs=inputs, ops=ops).substitute({made: integers})
