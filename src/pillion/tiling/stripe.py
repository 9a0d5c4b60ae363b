# SPDX-License-Identifier: Apache-2.0
"""Stripes: ops of a graph that run together, a few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import split_into_tiles


@dataclass(frozen=True)
class Stripe:
    """The ops from number `first` to before `end`, run together with `rows` more rows of the last result per step."""

    first: int
    end: int
    rows: int
    grain: int = 0
    """The maximum number of rows that any op computes at once; 0 for as many as a step needs."""
    fed: str = ""
    """The name of the input whose rows are delivered one after another and never lie in the arena all at once."""
    units: tuple[int, ...] = ()
    """For each op, the number of rows that its kernel computes at once; one each by default."""


def striped(graph: Graph, stripes: Sequence[Stripe]) -> Graph:
    """Replaces the ops of each stripe by a region. The result is the same."""
    ops: list[Op] = []
    at = 0
    for stripe in stripes:
        ops += graph.ops[at : stripe.first]
        ops.append(split_into_tiles(graph, *astuple(stripe)))
        at = stripe.end
    return graph.replace(ops=(*ops, *graph.ops[at:])) if stripes else graph
