# SPDX-License-Identifier: Apache-2.0
"""LiteRT in a process of its own: files can make it stop that process, or never end."""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from pillion.errors import PillionError
from pillion.ir.types import Array, Shape
from pillion.outside.child import Child, ChildEnded, ChildLate
from pillion.outside.declared import build, parse
from pillion.run import messages
from pillion.run.executor import TIMEOUT_SECONDS

WORKER = "pillion.run.litert_worker"
START_SECONDS = 120.0
"""How long importing LiteRT may take, on a computer that does other things too."""


class Refusal(Exception):
    """What LiteRT says of a file that it does not run."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a file."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class Borders:
    """What goes into a file, and what comes out."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class _Remote:
    """The process, until it crashes or is late."""

    def __init__(self) -> None:
        # The child finds the modules that this process finds, wherever it starts.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        self.child = Child([sys.executable, "-m", WORKER], env={**os.environ, "PYTHONPATH": path})
        self.numbers = itertools.count(1)
        self.dropped: list[int] = []
        self.ask(b"", START_SECONDS)

    def ask(self, question: bytes, seconds: float) -> tuple[bytes, list[Array]]:
        """Gives the bytes and the arrays of the answer; whatever else comes is an error."""
        try:
            self.child.send(question, seconds)
            message, program, arrays = messages.read(lambda count: self.child.receive(count, seconds))
        except ChildEnded as ended:
            raise _crashed(str(ended)) from None
        except ChildLate:
            raise _late(seconds) from None
        except BaseException as error:  # what is left in the pipes would be taken for the next answer
            self.child.close()
            if isinstance(error, ValueError):
                raise _crashed(f"its answer makes no sense: {error}") from None
            raise
        if message.error is not None:
            raise Refusal(message.error.get("what", ""))
        return program, arrays

    def closed(self) -> list[int]:
        """Gives the files that nobody asks any more since the last question."""
        found, self.dropped[:] = list(self.dropped), []
        return found


_running: list[_Remote] = []


def _remote() -> _Remote:
    if not _running or not _running[0].child.close.alive:
        _running[:] = [_Remote()]
    return _running[0]


class Interpreter:
    """A file in LiteRT's reference kernels, with memory of its own for each tensor: where a tensor is reshaped and read again, LiteRT's
    sharing lets an addition write over it. What the file remembers is there from run to run."""

    def __init__(self, model: bytes) -> None:
        self._remote = _remote()
        self._number = next(self._remote.numbers)
        question = messages.write(
            model, seconds=TIMEOUT_SECONDS, number=self._number, closed=self._remote.closed()
        )
        said, _ = self._remote.ask(question, TIMEOUT_SECONDS)
        self._borders = _borders(said)
        weakref.finalize(self, self._remote.dropped.append, self._number)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What goes in, in order."""
        return self._borders.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What comes out, in order."""
        return self._borders.outputs

    def run(self, inputs: Sequence[Array], seconds: float = TIMEOUT_SECONDS) -> tuple[Array, ...]:
        """Gives the outputs for some inputs. A `Refusal` says why LiteRT does not run them."""
        question = messages.write(arrays=inputs, seconds=seconds, number=self._number)
        return tuple(self._remote.ask(question, seconds)[1])


def _borders(said: bytes) -> Borders:
    try:
        return build(Borders, parse(said.decode()))
    except ValueError as error:
        raise _crashed(f"its answer makes no sense: {error}") from None


def _crashed(how: str) -> PillionError:
    return PillionError(
        "LiteRT crashed",
        rule="it answers, or says why it does not run a file",
        here=how,
        help="run another executor: --on host, or verify without LiteRT; scales beyond reason and layers without a bias can do that",
    )


def _late(seconds: float) -> PillionError:
    return PillionError(
        "the file did not finish in LiteRT",
        rule=f"a run ends within {seconds:g} s",
        here="it was stopped",
        help="give more time: --timeout, timeout= in Python",
    )
