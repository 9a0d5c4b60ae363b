# SPDX-License-Identifier: Apache-2.0
"""The process of the runtime: started by `remote`, it answers until its standard input ends. `python -m … PLUGIN`"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run.executorch import messages
from pillion.run.executorch.runtime import host


def main() -> None:
    """What the runtime prints must not get among the answers."""
    plugin = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    _answer(answers, lambda: messages.write() if host(plugin) else b"")
    questions = os.fdopen(0, "rb", closefd=False)
    while questions.peek(1):
        question, program, inputs = messages.read(questions.read)
        # We are stopped by our parent; if that was killed, by this.
        signal.setitimer(signal.ITIMER_REAL, question.seconds + 1)
        _answer(answers, partial(_run, plugin, program, inputs))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _run(plugin: Path, program: bytes, inputs: Sequence[Array]) -> bytes:
    return messages.write(arrays=host(plugin).execute(program, inputs))


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
