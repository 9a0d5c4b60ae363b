# SPDX-License-Identifier: Apache-2.0
"""Runs LiteRT in a child process, which a file may crash or hang."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from pillion.host_io.json_dataclasses import build, parse_strict_json
from pillion.ir.types import Array, Shape
from pillion.run import process_messages
from pillion.run.executor import TIMEOUT_SECONDS
from pillion.run.runtime_process import RuntimeMessages, RuntimeProcess, RuntimeRefusal

WORKER = "pillion.run.litert_worker"
START_SECONDS = 120.0
"""The time limit for importing LiteRT on a busy computer."""
WORDS = RuntimeMessages(
    crashed="LiteRT crashed",
    crash_help=(
        "run another executor: --on host, or verify without LiteRT; scales beyond reason and layers without a bias can do that"
    ),
    late="the file did not finish in LiteRT",
    late_help="give more time: --timeout, timeout= in Python",
)


class Refusal(Exception):
    """LiteRT refuses a file."""


@dataclass(frozen=True)
class LiteRtTensor:
    """An input or output of a file."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class LiteRtIo:
    """The inputs and outputs of a file."""

    inputs: tuple[LiteRtTensor, ...]
    outputs: tuple[LiteRtTensor, ...]


class _LiteRt(RuntimeProcess):
    """The process, and the ids of its open files."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._dropped: list[int] = []
        super().__init__(WORKER, words=WORDS, seconds=START_SECONDS)

    def open(self, model: bytes) -> tuple[int, bytes]:
        """Opens a file and returns its id and description."""
        number = next(self.numbers)
        closed, self._dropped[:] = list(self._dropped), []
        question = process_messages.write_message(
            model, seconds=TIMEOUT_SECONDS, number=number, closed=closed
        )
        return number, self.asked(question, TIMEOUT_SECONDS)[0]

    def asked(self, question: bytes, seconds: float) -> tuple[bytes, list[Array]]:
        """Returns the answer to a request; raises a `Refusal` with LiteRT's message."""
        try:
            return self.ask(question, seconds)
        except RuntimeRefusal as refused:
            raise Refusal(refused.parts.get("what", "")) from None

    def drop(self, number: int) -> None:
        """Closes a file with the next opened one."""
        self._dropped.append(number)


_running: list[_LiteRt] = []


def _litert_worker() -> _LiteRt:
    if not _running or not _running[0].alive:
        _running[:] = [_LiteRt()]
    return _running[0]


class LiteRtProcess:
    """A file in LiteRT's reference kernels, with separate memory for each tensor: if a tensor is reshaped and
    read again, LiteRT's sharing lets an addition overwrite it. States persist from run to run."""

    def __init__(self, model: bytes) -> None:
        self._process = _litert_worker()
        self._number, facts = self._process.open(model)
        try:
            self._borders = build(LiteRtIo, parse_strict_json(facts.decode()))
        except ValueError as error:
            raise self._process.malformed_answer_error(error) from None
        weakref.finalize(self, self._process.drop, self._number)

    @property
    def inputs(self) -> tuple[LiteRtTensor, ...]:
        """The inputs, in order."""
        return self._borders.inputs

    @property
    def outputs(self) -> tuple[LiteRtTensor, ...]:
        """The outputs, in order."""
        return self._borders.outputs

    def run(self, inputs: Sequence[Array], seconds: float = TIMEOUT_SECONDS) -> tuple[Array, ...]:
        """Returns the outputs for these inputs; raises a `Refusal` with LiteRT's reason."""
        question = process_messages.write_message(arrays=inputs, seconds=seconds, number=self._number)
        return tuple(self._process.asked(question, seconds)[1])
