# SPDX-License-Identifier: Apache-2.0
"""A third-party runtime in a child process, which a file may crash or hang: both sides of the protocol."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pillion.errors import PillionError
from pillion.host_io.child_process import Child, ChildEnded, ChildTimeoutError
from pillion.host_io.json_dataclasses import object_from_json
from pillion.ir.types import Array
from pillion.run.process_messages import Facts, read_message, write_message

Answer = Callable[[Facts, list[Array]], bytes]
"""Returns the answer to the facts and arrays of a request."""


@dataclass(frozen=True)
class RuntimeMessages:
    """The messages for a runtime that crashes or exceeds its time limit."""

    crashed: str
    crash_help: str
    late: str
    late_help: str


class RuntimeRefusal(PillionError):
    """The runtime refuses a program."""


class RuntimeProcess:
    """The process, until it crashes or exceeds a time limit."""

    def __init__(self, module: str, *arguments: str, words: RuntimeMessages, seconds: float) -> None:
        # The child has the same module path, in any working directory.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        command = [sys.executable, "-m", module, *arguments]
        self.child = Child(command, env={**os.environ, "PYTHONPATH": path})
        self._words = words
        self._exchange_messages(b"", seconds)

    @property
    def alive(self) -> bool:
        """Whether the process still accepts requests."""
        return self.child.alive

    def ask(self, arrays: Sequence[Array], seconds: float, **facts: Any) -> tuple[Facts, list[Array]]:
        """Returns the facts and arrays of the answer to a request; raises on anything else."""
        return self._exchange_messages(write_message(arrays, seconds=seconds, **facts), seconds)

    def _exchange_messages(self, question: bytes, seconds: float) -> tuple[Facts, list[Array]]:
        try:
            self.child.send(question, seconds)
            facts, arrays = read_message(lambda count: self.child.receive(count, seconds))
            refused = object_from_json(dict[str, str], facts["error"], "error") if "error" in facts else None
        except ChildEnded as ended:
            raise self._crash_error(str(ended)) from None
        except ChildTimeoutError:
            raise PillionError(
                self._words.late,
                rule=f"a run ends within {seconds:g} s",
                here="it was stopped",
                help=self._words.late_help,
            ) from None
        except BaseException as error:  # the rest in the pipes would be read as the next answer
            self.child.close()
            if isinstance(error, ValueError):
                raise self.malformed_answer_error(error) from None
            raise
        if refused is not None:
            what, rule, here, help = (refused.get(part, "") for part in ("what", "rule", "here", "help"))
            raise RuntimeRefusal(what, rule=rule, here=here, help=help)
        return facts, arrays

    def malformed_answer_error(self, error: ValueError) -> PillionError:
        """Returns the error for a malformed answer."""
        return self._crash_error(f"its answer makes no sense: {error}")

    def _crash_error(self, how: str) -> PillionError:
        return PillionError(
            self._words.crashed,
            rule="it answers, or says why it does not run a file",
            here=how,
            help=self._words.crash_help,
        )


def serve_requests(start: Callable[[], object], answer: Answer) -> None:
    """Starts the runtime in its process and answers requests until the input ends. Printed output is kept
    apart from answers."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def first() -> bytes:
        start()
        return write_message()

    with os.fdopen(os.dup(0), "rb") as questions:
        _write_answer(answers, first)
        while questions.peek(1):
            _write_answer(answers, lambda: _answer_request(questions.read, answer))


def _answer_request(receive: Callable[[int], bytes], answer: Answer) -> bytes:
    facts, arrays = read_message(receive)
    # The parent stops this process; the timer does if the parent was killed.
    signal.setitimer(signal.ITIMER_REAL, facts["seconds"] + 1)
    try:
        return answer(facts, arrays)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _write_answer(answers: BinaryIO, make: Callable[[], bytes]) -> None:
    """Writes an answer, or an error of the runtime; other errors end the process."""
    try:
        message = make()
    except PillionError as error:
        parts = {"what": error.what, "rule": error.rule, "here": error.here, "help": error.help}
        message = write_message(error=parts)
    except (ValueError, RuntimeError) as error:
        message = write_message(error={"what": " ".join(str(error).split())})
    view = memoryview(message)
    while view:
        view = view[answers.write(view) :]
