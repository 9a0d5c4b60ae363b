# SPDX-License-Identifier: Apache-2.0
"""Graphs as TensorFlow Lite files: what the NPU's converter reads, and what LiteRT runs."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ops import in_copies, leaves


def emit(graph: Graph) -> bytes:
    """Gives the graph as a `.tflite` file: schema version 3, one subgraph, and one that says what states are at first, the names of
    all values kept.

    The file means what the graph means under `tflite` arithmetic, whichever the graph names. What TFLite cannot say
    exactly is refused."""
    from pillion.emitters.tflite.remembering import with_layers
    from pillion.emitters.tflite.writer import write

    return write(in_copies(with_layers(graph), ".tflite"))


def want_operators(graph: Graph) -> None:
    """Raises where an op of a graph has no TFLite operator on purpose."""
    from pillion.emitters.tflite.remembering import with_layers
    from pillion.emitters.tflite.table import ROWS, nodes

    for op in leaves(with_layers(graph).ops):
        if type(op) in ROWS and ROWS[type(op)] is None:
            nodes(op)


__all__ = ["emit", "want_operators"]
