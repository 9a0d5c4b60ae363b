# SPDX-License-Identifier: Apache-2.0
"""The NPU's part in the ExecuTorch runtime: a segment's payload, interpreted by the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.delegate import read_payload
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.schemas.flatbuffer import MalformedError


class Buffer(ctypes.Structure):
    """The structure `pillion_buffer` of plugin.cpp: bytes and their number."""

    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


RUNNER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Buffer), ctypes.c_size_t
)

_errors: list[str] = []


def delegates(program: bytes) -> list[str]:
    """Names the processors that run a program's segments; none where the file is one that the runtime refuses."""
    try:
        return sorted({delegate.id for delegate in Container(program, "program").plan.delegates})
    except (MalformedError, PillionError):
        return []


def last_error() -> str:
    """Says why the last segment did not run."""
    return _errors.pop() if _errors else ""


def run(payload: int, size: int, buffers: Sequence[Buffer], count: int) -> int:
    """Runs a segment for the runtime: reads inputs from memory, writes outputs there. Zero is success."""
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


read = lru_cache(maxsize=64)(read_payload)
"""The graph behind a payload: the runtime hands over the same few again and again."""
