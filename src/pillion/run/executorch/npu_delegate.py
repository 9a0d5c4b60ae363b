# SPDX-License-Identifier: Apache-2.0
"""The NPU delegate of the ExecuTorch runtime: runs a segment's payload by the reference, or executes NPU
code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from pillion.devices.payloads import Executable
from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.delegate import read_payload
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.schemas.flatbuffer import MalformedError
from pillion.schemas.ir_payload import is_ir
from pillion.schemas.pte import PILLION_BACKEND
from pillion.targets import npu_interpreter


class RuntimeBuffer(ctypes.Structure):
    """The structure `pillion_buffer` of plugin.cpp: bytes and their number."""

    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


RUNNER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(RuntimeBuffer), ctypes.c_size_t
)

_errors: list[str] = []


def delegate_names(program: bytes) -> list[str]:
    """Returns the names of a program's delegates but the one for program images; empty if the runtime refuses the file."""
    try:
        return sorted(
            {delegate.id for delegate in Container(program, "program").plan.delegates} - {PILLION_BACKEND}
        )
    except (MalformedError, PillionError):
        return []


def last_error() -> str:
    """Returns the reason why the last segment failed."""
    return _errors.pop() if _errors else ""


def run_segment(payload: int, size: int, buffers: Sequence[RuntimeBuffer], count: int) -> int:
    """Runs a segment: reads inputs from memory and writes outputs there. Returns 0 for success."""
    try:
        code = read(ctypes.string_at(payload, size))
        used = buffers[:count]
        sizes = [*code.inputs, *code.outputs]
        if [buffer.bytes for buffer in used] != sizes:
            raise PillionError(
                "the program hands other tensors to the segment than it takes",
                rule=f"bytes {sizes}",
                here=f"bytes {[buffer.bytes for buffer in used]}",
                help="the file has been changed: compile the model again",
            )
        inputs = [ctypes.string_at(buffer.data, buffer.bytes) for buffer in used[: len(code.inputs)]]
        outputs = code.run(*(np.frombuffer(data, np.uint8) for data in inputs))
        for buffer, data in zip(used[len(code.inputs) :], outputs, strict=True):
            ctypes.memmove(buffer.data, data, buffer.bytes)
    except Exception as error:  # an exception cannot cross the runtime; it is raised again on the other side
        _errors[:] = [str(error)]
        return 1
    return 0


def _executable_of_payload(payload: bytes) -> Executable:
    """Returns the executable of a payload: its graph's reference, or the NPU's own code."""
    if not is_ir(payload):
        return npu_interpreter(payload)
    graph = read_payload(payload)
    inputs, outputs = (tuple(v.type.size_bytes for v in values) for values in (graph.inputs, graph.outputs))
    return Executable("", inputs, outputs, partial(_run_reference, graph))


def _run_reference(graph: Graph, *inputs: Array) -> tuple[bytes, ...]:
    arrays = (data.view(v.dtype.numpy).reshape(v.shape) for v, data in zip(graph.inputs, inputs, strict=True))
    return tuple(np.ascontiguousarray(output).tobytes() for output in graph.reference(*arrays))


read = lru_cache(maxsize=64)(_executable_of_payload)
"""Returns the executable of a payload, cached because the runtime passes the same few repeatedly."""
