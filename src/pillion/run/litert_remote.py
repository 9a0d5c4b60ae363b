# SPDX-License-Identifier: Apache-2.0
"""LiteRT in a process of its own: files can make it stop that process, or never end."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from pillion.ir.types import Array, Shape
from pillion.outside.declared import build, parse
from pillion.run import messages
from pillion.run.executor import TIMEOUT_SECONDS
from pillion.run.runtime_process import Refused, RuntimeProcess, Words

WORKER = "pillion.run.litert_worker"
START_SECONDS = 120.0
"""How long importing LiteRT may take, on a computer that does other things too."""
WORDS = Words(
    crashed="LiteRT crashed",
    crash_help=(
        "run another executor: --on host, or verify without LiteRT; scales beyond reason and layers without a bias can do that"
    ),
    late="the file did not finish in LiteRT",
    late_help="give more time: --timeout, timeout= in Python",
)


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


class _LiteRt(RuntimeProcess):
    """The process, and the numbers of the files that it holds."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._dropped: list[int] = []
        super().__init__(WORKER, words=WORDS, seconds=START_SECONDS)

    def open(self, model: bytes) -> tuple[int, bytes]:
        """Opens a file. Gives its number, and what is said of it."""
        number = next(self.numbers)
        closed, self._dropped[:] = list(self._dropped), []
        question = messages.write(model, seconds=TIMEOUT_SECONDS, number=number, closed=closed)
        return number, self.asked(question, TIMEOUT_SECONDS)[0]

    def asked(self, question: bytes, seconds: float) -> tuple[bytes, list[Array]]:
        """Asks, and raises a `Refusal` with what LiteRT says."""
        try:
            return self.ask(question, seconds)
        except Refused as refused:
            raise Refusal(refused.parts.get("what", "")) from None

    def drop(self, number: int) -> None:
        """Has a file let go with the next that is opened."""
        self._dropped.append(number)


_running: list[_LiteRt] = []


def _litert() -> _LiteRt:
    if not _running or not _running[0].alive:
        _running[:] = [_LiteRt()]
    return _running[0]


class Interpreter:
    """A file in LiteRT's reference kernels, with memory of its own for each tensor: where a tensor is reshaped and read again, LiteRT's
    sharing lets an addition write over it. What the file remembers is there from run to run."""

    def __init__(self, model: bytes) -> None:
        self._process = _litert()
        self._number, said = self._process.open(model)
        try:
            self._borders = build(Borders, parse(said.decode()))
        except ValueError as error:
            raise self._process.nonsense(error) from None
        weakref.finalize(self, self._process.drop, self._number)

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
        return tuple(self._process.asked(question, seconds)[1])
