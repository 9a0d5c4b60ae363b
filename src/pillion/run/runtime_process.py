# SPDX-License-Identifier: Apache-2.0
"""A third-party runtime in a child process, which a file may crash or hang: both sides of the protocol."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from pillion.errors import PillionError
from pillion.host_io.child_process import Child, ChildEnded, ChildTimeoutError
from pillion.ir.types import Array
from pillion.run import process_messages

Answer = Callable[[process_messages.Message, bytes, list[Array]], bytes]
"""Returns the answer to a request, from the request, its program and its arrays."""
Failure = Callable[[Exception], Mapping[str, str] | None]
"""Returns the parts of an error for the other side, or None if the error ends the process."""


@dataclass(frozen=True)
class RuntimeMessages:
    """The messages for a runtime that crashes or exceeds its time limit."""

    crashed: str
    crash_help: str
    late: str
    late_help: str


class RuntimeRefusal(Exception):
    """The runtime refuses a program; the reason is in parts."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        super().__init__(parts.get("what", ""))
        self.parts = parts


class RuntimeProcess:
    """The process, until it crashes or exceeds a time limit."""

    def __init__(self, module: str, *arguments: str, words: RuntimeMessages, seconds: float) -> None:
        # The child has the same module path, in any working directory.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        command = [sys.executable, "-m", module, *arguments]
        self.child = Child(command, env={**os.environ, "PYTHONPATH": path})
        self._words = words
        self.ask(b"", seconds)

    @property
    def alive(self) -> bool:
        """Whether it accepts requests."""
        return self.child.close.alive

    def ask(self, question: bytes, seconds: float) -> tuple[bytes, list[Array]]:
        """Returns the bytes and arrays of the answer; raises on anything else."""
        try:
            self.child.send(question, seconds)
            message, program, arrays = process_messages.read_message(
                lambda count: self.child.receive(count, seconds)
            )
        except ChildEnded as ended:
            raise self.crashed(str(ended)) from None
        except ChildTimeoutError:
            raise self._late(seconds) from None
        except BaseException as error:  # the rest in the pipes would be read as the next answer
            self.child.close()
            if isinstance(error, ValueError):
                raise self.malformed_answer_error(error) from None
            raise
        if message.error is not None:
            raise RuntimeRefusal(message.error)
        return program, arrays

    def malformed_answer_error(self, error: ValueError) -> PillionError:
        """Returns the error for a malformed answer."""
        return self.crashed(f"its answer makes no sense: {error}")

    def crashed(self, how: str) -> PillionError:
        """Returns the error for a process that ended."""
        return PillionError(
            self._words.crashed,
            rule="it answers, or says why it does not run a file",
            here=how,
            help=self._words.crash_help,
        )

    def _late(self, seconds: float) -> PillionError:
        return PillionError(
            self._words.late,
            rule=f"a run ends within {seconds:g} s",
            here="it was stopped",
            help=self._words.late_help,
        )


def serve_requests(start: Callable[[], object], answer: Answer, failure: Failure) -> None:
    """Starts the runtime in its process and answers requests until the input ends. Printed output is kept
    apart from answers."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def started() -> bytes:
        start()
        return process_messages.write_message()

    _write_answer(answers, _bytes_or_failure(started, failure))
    with os.fdopen(os.dup(0), "rb") as questions:
        while questions.peek(1):
            _write_answer(
                answers, _bytes_or_failure(lambda: _answer_request(questions.read, answer), failure)
            )


def _answer_request(receive: process_messages.Receive, answer: Answer) -> bytes:
    question, program, arrays = process_messages.read_message(receive)
    # The parent stops this process; the timer does if the parent was killed.
    signal.setitimer(signal.ITIMER_REAL, question.seconds + 1)
    try:
        return answer(question, program, arrays)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _bytes_or_failure(make: Callable[[], bytes], failure: Failure) -> bytes:
    try:
        return make()
    except Exception as error:
        parts = failure(error)
        if parts is None:
            raise
        return process_messages.write_message(error=parts)


def _write_answer(answers: BinaryIO, message: bytes) -> None:
    view = memoryview(message)
    while view:
        view = view[answers.write(view) :]
