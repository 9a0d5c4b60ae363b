# SPDX-License-Identifier: Apache-2.0
"""The child process of LiteRT. `litert_remote` starts it; it serves requests until its input ends."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pillion.ir.types import Array
from pillion.run.process_messages import SENDABLE, Facts, as_sendable, write_message
from pillion.run.runtime_process import serve_requests

_OPEN: dict[int, Any] = {}
"""The open files by id."""


def main() -> None:
    """Serves requests until the input ends."""
    serve_requests(lambda: importlib.import_module("ai_edge_litert.interpreter"), _answer_request)


def _answer_request(question: Facts, arrays: list[Array]) -> bytes:
    for number in question.get("closed", ()):
        _OPEN.pop(number, None)
    if question["opens"]:
        return _open_file(question["number"], arrays[0].tobytes())
    return _run_interpreter(_OPEN[question["number"]], arrays)


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
    return write_message(io={side: list(map(_describe_tensor, rows)) for side, rows in io_details.items()})


def _describe_tensor(detail: Any) -> dict[str, object]:
    shape = list(map(int, detail["shape"]))
    return {"name": detail["name"], "dtype": np.dtype(detail["dtype"]).name, "shape": shape}


def _run_interpreter(interpreter: Any, inputs: list[Array]) -> bytes:
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        dtype = np.dtype(detail["dtype"])
        is_whole = dtype.name in SENDABLE
        own = array if is_whole else array.view(dtype).reshape(detail["shape"])
        interpreter.set_tensor(detail["index"], own)
    interpreter.invoke()
    outputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    return write_message([as_sendable(y) for y in outputs])


if __name__ == "__main__":
    main()
