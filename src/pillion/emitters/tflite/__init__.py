# SPDX-License-Identifier: Apache-2.0
"""Emits graphs as TensorFlow Lite files, for the NPU's converter and for LiteRT."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ops import Lut, flatten_ops, unroll_for_format
from pillion.ops.lut_tflite import ENTRIES
from pillion.ops.widen_operands import widen_operands


def emit(graph: Graph) -> bytes:
    """Returns the graph as a `.tflite` file: schema version 3, one subgraph and one that initializes states;
    all names are kept.

    The file computes the graph in `tflite` arithmetic, whichever the graph names. Ops without an exact TFLite
    form are refused."""
    from pillion.emitters.tflite.recurrent import with_layers
    from pillion.emitters.tflite.writer import write_file

    return write_file(widen_operands(unroll_for_format(with_layers(graph), ".tflite")))


def emit_segment(body: Graph) -> bytes:
    """Returns the graph of a segment as a `.tflite` file for an NPU's converter, in which lookup tables have an operator
    of their own."""
    from pillion.emitters.tflite.segment_tables import with_segment_tables

    return emit(with_segment_tables(body))


def require_operators(graph: Graph) -> None:
    """Raises if an op of a graph deliberately has no TFLite operator."""
    from pillion.emitters.tflite.recurrent import with_layers
    from pillion.emitters.tflite.table import ROWS, operators_of_op

    for op in flatten_ops(with_layers(graph).ops):
        is_other_function = isinstance(op, Lut) and op.function not in ENTRIES
        if (type(op) in ROWS and ROWS[type(op)] is None) or is_other_function:
            operators_of_op(op)


__all__ = ["emit", "emit_segment", "require_operators"]
