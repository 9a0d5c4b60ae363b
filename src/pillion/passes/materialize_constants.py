# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph, UniqueNames
from pillion.ops.movement import copy_op


def materialize_constants(graph: Graph) -> Graph:
    """Copies constant outputs to where outputs are read. A model without a computed output stays as it is."""
    if all(v.is_constant for v in graph.outputs) or not any(v.is_constant for v in graph.outputs):
        return graph
    names = UniqueNames(graph.values)
    written = [v.like(names.fresh(f"{v.name}_out")) if v.is_constant else v for v in graph.outputs]
    pairs = zip(graph.outputs, written, strict=True)
    copies = (copy_op(value, y) for value, y in pairs if y is not value)
    return graph.replace(ops=(*graph.ops, *copies), outputs=tuple(written))
