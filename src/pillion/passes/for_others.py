# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

from pillion.ir.graph import Graph
from pillion.passes.compose_magnitudes import compose_magnitudes
from pillion.passes.compose_norms import compose_norms
from pillion.passes.narrow_sums import narrow_sums
from pillion.passes.plain_bags import plain_bags
from pillion.passes.usual_softmaxes import usual_softmaxes

COARSER: tuple[tuple[Callable[[Graph], Graph], str], ...] = (
    (
        usual_softmaxes,
        "probabilities that are multiplied on are in steps of 1/256 there, and in finer ones in C (docs/quality.md)",
    ),
    (
        narrow_sums,
        "sums between norms and states of loops have 8 bits there, and 16 in C (docs/guide/quantization.md)",
    ),
    (
        compose_norms,
        "norms are made of ops of 8 bits there, and one exact op in C (docs/guide/quantization.md)",
    ),
    (
        plain_bags,
        "tables of embeddings have one scale there, and one a row in C (docs/guide/numbers.md)",
    ),
    (
        compose_magnitudes,
        "squares that are added up have 8 bits there, and 32 in C (docs/guide/quantization.md)",
    ),
)
"""What other runtimes have not: the pass that says it in their terms, and what that makes of it."""


def for_others(graph: Graph, said: Callable[[str], None] = lambda words: None) -> Graph:
    """Gives a graph in terms of runtimes that are not ours, and says what is coarser there."""
    for rewritten, words in COARSER:
        before, graph = graph, rewritten(graph)
        if graph is not before:
            said(words)
    return graph
