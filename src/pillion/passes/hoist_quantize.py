# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Function, Lut, Quantize, Reshape, Slice, Transpose


def hoist_quantize(graph: Graph) -> Graph:
    """Moves a quantize, or a clamp that can become bounds, before the data movement that precedes it: one
    byte moves instead of four."""
    while (swapped := _swap_with_move(graph)) is not graph:
        graph = swapped
    return graph


@rewrite_pass(Quantize, Lut)
def _swap_with_move(op: Quantize | Lut, at: RewriteSweep) -> Replacement:
    """Swaps an elementwise op with a move of its operand for it alone."""
    graph = at.graph
    move = graph.producers.get(op.x)
    if not isinstance(move, Transpose | Reshape | Slice) or graph.only_user(move.y) is not op:
        return None
    if isinstance(op, Lut):
        is_only_view = isinstance(move, Reshape) and graph.only_user(move.x) is move
        if op.function is not Function.CLAMP or not is_only_view:
            return None
    early = op.y.like(at.names.fresh(f"{move.y.name}_early"), shape=move.x.shape)
    return [dataclasses.replace(op, x=move.x, y=early), dataclasses.replace(move, x=early, y=op.y)]
