# SPDX-License-Identifier: Apache-2.0
"""Reads the graph in the payload of an NPU segment, if it is marked TFLite."""

from __future__ import annotations

from pillion.errors import PillionError
from pillion.importers.tflite import read as read_tflite
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.schemas.ir_payload import damaged_payload_error, is_ir, parse_ir


def read_payload(payload: bytes) -> Graph:
    """Returns the graph of a payload, inputs and outputs in the order of the program's arguments."""
    if not is_ir(payload):
        raise PillionError(
            "a segment holds code for the NPU itself",
            rule="on this computer a segment is TFLite under Pillion's mark",
            here=f"a payload of {len(payload)} bytes without the mark",
            help="a file that Pillion wrote and nobody changed runs with --on npu; else compile the model again",
        )
    parsed, known = parse_ir(payload), [arithmetic.value for arithmetic in Arithmetic]
    if parsed.arithmetic not in known:
        raise damaged_payload_error(f"an arithmetic of {', '.join(known)}", repr(parsed.arithmetic))
    graph = read_tflite(parsed.tflite)
    return graph.replace(
        inputs=_order_by_names(graph.inputs, parsed.inputs),
        outputs=_order_by_names(graph.outputs, parsed.outputs),
        arithmetic=Arithmetic(parsed.arithmetic),
    )


def _order_by_names(values: tuple[Value, ...], names: tuple[str, ...]) -> tuple[Value, ...]:
    by_name = {v.name: v for v in values}
    if set(by_name) != set(names):
        raise PillionError(
            "the names at a segment's border are not those of its graph",
            rule=", ".join(names),
            here=", ".join(by_name),
            help="the file has been changed: compile the model again",
        )
    return tuple(by_name[name] for name in names)
