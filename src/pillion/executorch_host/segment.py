# SPDX-License-Identifier: Apache-2.0
"""The NPU's part in the ExecuTorch runtime: a segment's payload, interpreted by the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import Array, Value


class Buffer(ctypes.Structure):
    """`pillion_buffer` of plugin.cpp."""

    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


RUNNER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Buffer), ctypes.c_size_t
)

_errors: list[str] = []


def last_error() -> str:
    """Why the last segment did not run."""
    return _errors.pop() if _errors else ""


def run(payload: int, size: int, buffers: Sequence[Buffer], count: int) -> int:
    """The callback: reads inputs from memory, writes outputs there. Zero is success."""
    try:
        graph = read(ctypes.string_at(payload, size))
        places = buffers[:count]
        wanted = [v.type.size_bytes for v in (*graph.inputs, *graph.outputs)]
        if [place.bytes for place in places] != wanted:
            raise PillionError(
                "the program hands other tensors to the segment than it takes",
                rule=f"bytes {wanted}",
                here=f"bytes {[place.bytes for place in places]}",
                help="the file has been changed: compile the model again",
            )
        outputs = graph.reference(*_inputs(graph, places))
        for place, array in zip(places[len(graph.inputs) :], outputs, strict=True):
            ctypes.memmove(place.data, np.ascontiguousarray(array).tobytes(), place.bytes)
    except Exception as error:  # an exception cannot cross the runtime; it is raised again on the other side
        _errors[:] = [str(error)]
        return 1
    return 0


def _inputs(graph: Graph, places: Sequence[Buffer]) -> list[Array]:
    arrays: list[Array] = []
    for value, place in zip(graph.inputs, places, strict=False):
        raw = ctypes.string_at(place.data, place.bytes)
        arrays.append(np.frombuffer(raw, value.dtype.numpy).reshape(value.shape))
    return arrays


@lru_cache(maxsize=64)
def read(payload: bytes) -> Graph:
    """The graph behind a payload, inputs and outputs in the order of the program's arguments."""
    from pillion.emitters.neutron.ir_payload import is_ir, parse_ir
    from pillion.importers.tflite import read as read_tflite

    if not is_ir(payload):
        raise PillionError(
            "a segment holds code for the NPU itself",
            rule="on this computer a segment is TFLite under Pillion's mark",
            here=f"a payload of {len(payload)} bytes without the mark",
            help="compile without NXP's SDK to run the program here",
        )
    parsed = parse_ir(payload)
    graph = read_tflite(parsed.tflite)
    return graph.replace(
        inputs=_in_order(graph.inputs, parsed.inputs), outputs=_in_order(graph.outputs, parsed.outputs)
    )


def _in_order(values: tuple[Value, ...], names: tuple[str, ...]) -> tuple[Value, ...]:
    by_name = {v.name: v for v in values}
    if set(by_name) != set(names):
        raise PillionError(
            "the names at a segment's border are not those of its graph",
            rule=", ".join(names),
            here=", ".join(by_name),
            help="the file has been changed: compile the model again",
        )
    return tuple(by_name[name] for name in names)
