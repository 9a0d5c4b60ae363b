# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Slice


def materialize_constants(graph: Graph) -> Graph:
    """Copies constant outputs to where outputs are read. A model without a computed output stays as it is."""
    if all(v.is_constant for v in graph.outputs):
        return graph
    names = UniqueNames(graph.values)
    copies: list[Op] = []
    written: list[Value] = []
    for value in graph.outputs:
        if value.is_constant:
            rank = value.type.rank
            y = Value(names.fresh(f"{value.name}_out"), value.type)
            copies.append(Slice(x=value, y=y, begin=(0,) * rank, step=(1,) * rank))
            value = y
        written.append(value)
    return graph.replace(ops=(*graph.ops, *copies), outputs=tuple(written)) if copies else graph
