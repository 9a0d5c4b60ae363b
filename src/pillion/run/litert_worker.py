# SPDX-License-Identifier: Apache-2.0
"""The process of LiteRT: started by `litert_remote`, it answers until its standard input ends."""

from __future__ import annotations

import importlib
import json
import os
import signal
from typing import Any, BinaryIO

import numpy as np

from pillion.run import messages

_OPEN: dict[int, Any] = {}
"""The files that are open, by their numbers."""


def main() -> None:
    """Opens files and runs them; what LiteRT prints is kept from getting among the answers."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    importlib.import_module("ai_edge_litert.interpreter")
    _write(answers, messages.write())
    with os.fdopen(os.dup(0), "rb") as questions:
        while questions.peek(1):
            _write(answers, _answer(questions.read))


def _answer(receive: messages.Receive) -> bytes:
    question, program, inputs = messages.read(receive)
    for number in question.closed:
        _OPEN.pop(number, None)
    # We are stopped by our parent; if that was killed, by this.
    signal.setitimer(signal.ITIMER_REAL, question.seconds + 1)
    try:
        return _opened(question.number, program) if program else _run(_OPEN[question.number], inputs)
    except (ValueError, RuntimeError) as error:
        return messages.write(error={"what": " ".join(str(error).split())})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _opened(number: int, program: bytes) -> bytes:
    litert: Any = importlib.import_module("ai_edge_litert.interpreter")
    made: Any = litert.Interpreter(
        model_content=program,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,
    )
    made.allocate_tensors()
    _OPEN[number] = made
    found = {"inputs": made.get_input_details(), "outputs": made.get_output_details()}
    borders = {side: [_tensor(detail) for detail in details] for side, details in found.items()}
    return messages.write(json.dumps(borders).encode())


def _tensor(detail: Any) -> dict[str, object]:
    return {
        "name": detail["name"],
        "dtype": np.dtype(detail["dtype"]).name,
        "shape": list(map(int, detail["shape"])),
    }


def _run(interpreter: Any, inputs: list[Any]) -> bytes:
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        dtype = np.dtype(detail["dtype"])
        own = array if messages.has_name(dtype.name) else array.view(dtype).reshape(detail["shape"])
        interpreter.set_tensor(detail["index"], own)
    interpreter.invoke()
    made = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    return messages.write(
        arrays=[y if messages.has_name(y.dtype.name) else messages.as_bytes(y) for y in made]
    )


def _write(answers: BinaryIO, message: bytes) -> None:
    view = memoryview(message)
    while view:
        view = view[answers.write(view) :]


if __name__ == "__main__":
    main()
