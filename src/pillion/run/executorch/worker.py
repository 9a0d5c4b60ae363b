# SPDX-License-Identifier: Apache-2.0
"""The process of the runtime: started by `remote`, it answers until its standard input ends. `python -m … PLUGIN`"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pillion.errors import PillionError
from pillion.run import messages
from pillion.run.executorch.runtime import host


def main() -> None:
    """Runs programs and answers; what the runtime prints is kept from getting among the answers."""
    plugin = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    _answer(answers, lambda: messages.write() if host(plugin) else b"")
    with os.fdopen(os.dup(0), "rb") as questions:
        while questions.peek(1):
            _answer(answers, lambda: _run(plugin, questions.read))


def _run(plugin: Path, receive: messages.Receive) -> bytes:
    question, program, inputs = messages.read(receive)
    # We are stopped by our parent; if that was killed, by this.
    signal.setitimer(signal.ITIMER_REAL, question.seconds + 1)
    try:
        outputs = host(plugin).execute(program, inputs, question.goes_on)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return messages.write(arrays=outputs)


def _answer(answers: BinaryIO, make: Callable[[], bytes]) -> None:
    try:
        message = make()
    except PillionError as error:
        parts = {"what": error.what, "rule": error.rule, "here": error.here, "help": error.help}
        message = messages.write(error=parts)
    view = memoryview(message)
    while view:
        view = view[answers.write(view) :]


if __name__ == "__main__":
    main()
