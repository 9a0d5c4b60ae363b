# SPDX-License-Identifier: Apache-2.0
"""Stripes: ops of a graph that run together, a few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import as_region


@dataclass(frozen=True)
class Stripe:
    """The ops from number `first` to before number `end` of a graph run together: `rows` more rows of the last result in each step."""

    first: int
    end: int
    rows: int
    grain: int = 0
    """The most rows that any of the ops makes at once; 0 for as many as a step needs."""
    fed: str = ""
    """The name of the input of the graph whose rows are handed over one after another, and never lie in the arena all at once."""
    units: tuple[int, ...] = ()
    """Of each op the rows that its kernel makes at once: for fewer it takes as long. One each, where nothing is said."""


def striped(graph: Graph, stripes: Sequence[Stripe]) -> Graph:
    """Gives the graph with a region in the place of each stripe's ops. It means the same."""
    ops: list[Op] = []
    at = 0
    for stripe in stripes:
        ops += graph.ops[at : stripe.first]
        ops.append(as_region(graph, *astuple(stripe)))
        at = stripe.end
    return graph.replace(ops=(*ops, *graph.ops[at:])) if stripes else graph
