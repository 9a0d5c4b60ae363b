# SPDX-License-Identifier: Apache-2.0
"""The child process of LiteRT. `litert_remote` starts it; it serves requests until its input ends."""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np

from pillion.run import process_messages
from pillion.run.runtime_process import serve_requests

_OPEN: dict[int, Any] = {}
"""The open files by id."""


def main() -> None:
    """Serves requests until the input ends."""
    serve_requests(
        lambda: importlib.import_module("ai_edge_litert.interpreter"), _answer_request, _error_parts
    )


def _answer_request(question: process_messages.Message, program: bytes, inputs: list[Any]) -> bytes:
    for number in question.closed:
        _OPEN.pop(number, None)
    return (
        _open_file(question.number, program) if program else _run_interpreter(_OPEN[question.number], inputs)
    )


def _error_parts(error: Exception) -> dict[str, str] | None:
    return {"what": " ".join(str(error).split())} if isinstance(error, ValueError | RuntimeError) else None


def _open_file(number: int, program: bytes) -> bytes:
    litert: Any = importlib.import_module("ai_edge_litert.interpreter")
    interpreter: Any = litert.Interpreter(
        model_content=program,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    _OPEN[number] = interpreter
    io_details = {"inputs": interpreter.get_input_details(), "outputs": interpreter.get_output_details()}
    borders = {side: [_describe_tensor(detail) for detail in details] for side, details in io_details.items()}
    return process_messages.write_message(json.dumps(borders).encode())


def _describe_tensor(detail: Any) -> dict[str, object]:
    return {
        "name": detail["name"],
        "dtype": np.dtype(detail["dtype"]).name,
        "shape": list(map(int, detail["shape"])),
    }


def _run_interpreter(interpreter: Any, inputs: list[Any]) -> bytes:
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        dtype = np.dtype(detail["dtype"])
        own = (
            array
            if process_messages.is_sendable_dtype(dtype.name)
            else array.view(dtype).reshape(detail["shape"])
        )
        interpreter.set_tensor(detail["index"], own)
    interpreter.invoke()
    outputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    return process_messages.write_message(
        arrays=[
            y if process_messages.is_sendable_dtype(y.dtype.name) else process_messages.as_bytes(y)
            for y in outputs
        ]
    )


if __name__ == "__main__":
    main()
