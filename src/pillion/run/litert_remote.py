# SPDX-License-Identifier: Apache-2.0
"""Runs LiteRT in a child process, which a file may crash or hang."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pillion.host_io.child_process import restarting_process
from pillion.host_io.json_dataclasses import object_from_json
from pillion.ir.types import Array, Shape
from pillion.run.executor import TIMEOUT_SECONDS
from pillion.run.runtime_process import RuntimeMessages, RuntimeProcess

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


_litert_process = restarting_process(lambda: RuntimeProcess(WORKER, words=WORDS, seconds=START_SECONDS))
_numbers = itertools.count(1)
_closed: list[int] = []
"""The ids of files to close with the next opened one."""


class LiteRtProcess:
    """A file in LiteRT's reference kernels, with separate memory for each tensor: if a tensor is reshaped and
    read again, LiteRT's sharing lets an addition overwrite it. States persist from run to run."""

    def __init__(self, model: bytes) -> None:
        self._process, self._number = _litert_process(), next(_numbers)
        closed, _closed[:] = list(_closed), []
        program = [np.frombuffer(model, np.uint8)]
        facts, _ = self._process.ask(program, TIMEOUT_SECONDS, opens=True, number=self._number, closed=closed)
        try:
            self.io = object_from_json(LiteRtIo, facts.get("io"))
        except ValueError as error:
            raise self._process.malformed_answer_error(error) from None
        weakref.finalize(self, _closed.append, self._number)

    def run(self, inputs: Sequence[Array], seconds: float = TIMEOUT_SECONDS) -> tuple[Array, ...]:
        """Returns the outputs for these inputs; raises a `RuntimeRefusal` with LiteRT's reason."""
        return tuple(self._process.ask(inputs, seconds, opens=False, number=self._number)[1])
