# SPDX-License-Identifier: Apache-2.0
"""What a report is about: a compiled program, as far as a report looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pillion.boards.board import Optimize
from pillion.devices.payloads import Payloads
from pillion.emitters.c.program import CProgram
from pillion.importers.pte import ReadProgram
from pillion.ir.graph import Graph
from pillion.outside.files import Content
from pillion.place import Ledger
from pillion.run.floats import FloatModel
from pillion.targets import Target

Progress = Callable[[int, "int | None"], None]
"""Called after each sample with the number of samples so far, and of all."""

Stage = Callable[[str], None]
"""Called with what begins now: some of it takes long."""


class Subject(Protocol):
    """A compiled program."""

    @property
    def graph(self) -> Graph:
        """The ops that are run."""

    @property
    def target(self) -> Target:
        """The chip that the program is compiled for."""

    @property
    def ledger(self) -> Ledger:
        """Where each op runs and why."""

    @property
    def optimize(self) -> Optimize:
        """What kernels are chosen and compiled for."""

    @property
    def file(self) -> ReadProgram | None:
        """The .pte file that the program was read from, if it was."""

    @property
    def floats(self) -> FloatModel | None:
        """The model that the program was quantized from, where that is at hand."""

    @property
    def lowered(self) -> CProgram:
        """The form from which C is written."""

    @property
    def npu_constant_bytes(self) -> int:
        """The bytes of the weights of the NPU's segments."""

    @property
    def sram_bytes(self) -> int:
        """The bytes that the program holds in RAM while it runs."""

    @property
    def payloads(self) -> Payloads:
        """The bytes that the NPU is handed for each segment."""

    @property
    def source(self) -> bytes | None:
        """The .tflite file that the model was read from, if it was."""

    @property
    def files(self) -> Mapping[str, Content]:
        """Gives path → content of the C project."""

    def of(self, graph: Graph) -> Subject:
        """Gives the program of another graph."""


@dataclass(frozen=True)
class Asked:
    """What a user asks of a report beside the program."""

    data: Any = None
    """Samples for the quality of quantization: an iterable, or the path of a file or folder."""
    samples: int = 16
    """How many of them are looked at, at most."""
    measure: bool = True
    """Whether instructions are counted in the emulator, where the tools are there."""
    command: str = ""
    """The command line that makes the same report."""
    named_files: Mapping[str, Path] | None = None
    """Files that went in, by what they are: their hashes are told."""
    progress: Progress | None = None
    stage: Stage | None = None
