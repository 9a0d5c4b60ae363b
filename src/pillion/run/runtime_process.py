# SPDX-License-Identifier: Apache-2.0
"""A runtime that we did not write, in a process of its own: a file can make it stop that process, or never end. Both sides of the talk."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.outside.child import Child, ChildEnded, ChildLate
from pillion.run import messages

Answer = Callable[[messages.Message, bytes, list[Array]], bytes]
"""Makes the message that answers a question, of the question, the program in it, and its arrays."""
Failure = Callable[[Exception], Mapping[str, str] | None]
"""Gives the parts of an error that the other side shall be told, or nothing of one that ends the process."""


@dataclass(frozen=True)
class Words:
    """What is said of a runtime that gives no answer: of a crash, and of a run that takes too long."""

    crashed: str
    crash_help: str
    late: str
    late_help: str


class Refused(Exception):
    """What the runtime says of a program that it does not run, in parts."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        super().__init__(parts.get("what", ""))
        self.parts = parts


class RuntimeProcess:
    """The process, until it crashes or is late."""

    def __init__(self, module: str, *arguments: str, words: Words, seconds: float) -> None:
        # The child finds the modules that this process finds, wherever it starts.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        command = [sys.executable, "-m", module, *arguments]
        self.child = Child(command, env={**os.environ, "PYTHONPATH": path})
        self._words = words
        self.ask(b"", seconds)

    @property
    def alive(self) -> bool:
        """Whether it can be asked something."""
        return self.child.close.alive

    def ask(self, question: bytes, seconds: float) -> tuple[bytes, list[Array]]:
        """Gives the bytes and the arrays of the answer; whatever else comes is an error."""
        try:
            self.child.send(question, seconds)
            message, program, arrays = messages.read(lambda count: self.child.receive(count, seconds))
        except ChildEnded as ended:
            raise self.crashed(str(ended)) from None
        except ChildLate:
            raise self._late(seconds) from None
        except BaseException as error:  # what is left in the pipes would be taken for the next answer
            self.child.close()
            if isinstance(error, ValueError):
                raise self.nonsense(error) from None
            raise
        if message.error is not None:
            raise Refused(message.error)
        return program, arrays

    def nonsense(self, error: ValueError) -> PillionError:
        """Gives the error of an answer that cannot be read."""
        return self.crashed(f"its answer makes no sense: {error}")

    def crashed(self, how: str) -> PillionError:
        """Gives the error of a process that is no more."""
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


def serve(start: Callable[[], object], answer: Answer, failure: Failure) -> None:
    """Starts the runtime and answers until the standard input ends, in the process of the runtime; what it prints is kept from getting
    among the answers."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def started() -> bytes:
        start()
        return messages.write()

    _write(answers, _made(started, failure))
    with os.fdopen(os.dup(0), "rb") as questions:
        while questions.peek(1):
            _write(answers, _made(lambda: _answered(questions.read, answer), failure))


def _answered(receive: messages.Receive, answer: Answer) -> bytes:
    question, program, arrays = messages.read(receive)
    # We are stopped by our parent; if that was killed, by this.
    signal.setitimer(signal.ITIMER_REAL, question.seconds + 1)
    try:
        return answer(question, program, arrays)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _made(make: Callable[[], bytes], failure: Failure) -> bytes:
    try:
        return make()
    except Exception as error:
        parts = failure(error)
        if parts is None:
            raise
        return messages.write(error=parts)


def _write(answers: BinaryIO, message: bytes) -> None:
    view = memoryview(message)
    while view:
        view = view[answers.write(view) :]
