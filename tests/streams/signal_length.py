# SPDX-License-Identifier: Apache-2.0
"""A graph for another number of frames: what PyTorch would export for a longer signal, with the same scales."""

from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verify import verify_graph


def retimed(graph: Graph, frames: int, longer: int) -> Graph:
    """Gives the graph in which what has at least so many rows has more of them: of graphs where time has more rows than anything else."""

    def sized(value: Value) -> Value:
        if value.is_constant:
            return value
        shape = tuple(size + longer - frames if size >= frames else size for size in value.shape)
        return dataclasses.replace(value, type=dataclasses.replace(value.type, shape=shape))

    values = {v: sized(v) for v in graph.values.values()}
    ops: list[Op] = [op.substitute(values) for op in graph.ops]
    return verify_graph(
        graph.replace(
            inputs=tuple(values[v] for v in graph.inputs),
            ops=tuple(ops),
            outputs=tuple(values[v] for v in graph.outputs),
        )
    )
