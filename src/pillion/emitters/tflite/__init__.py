# SPDX-License-Identifier: Apache-2.0
"""Graphs as TensorFlow Lite files: what the NPU's converter reads, and what LiteRT runs."""

from __future__ import annotations

from pillion.ir.graph import Graph, want_no_states


def emit(graph: Graph) -> bytes:
    """Gives the graph as a `.tflite` file: schema version 3, one subgraph, the names of all values kept.

    The file means what the graph means under `tflite` arithmetic, whichever the graph names. What TFLite cannot say
    exactly is refused."""
    from pillion.emitters.tflite.writer import write

    want_no_states(graph, ".tflite")
    return write(graph)


__all__ = ["emit"]
