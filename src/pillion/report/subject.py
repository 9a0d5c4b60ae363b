# SPDX-License-Identifier: Apache-2.0
"""The interface of a program as reports need it, and the options of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.manifest import NpuMemory
from pillion.option_values import Optimize
from pillion.partition import Ledger
from pillion.run.executor import Runnable
from pillion.run.float_interface import FloatModel
from pillion.run.time_estimate import TimingConditions

Progress = Callable[[int, "int | None"], None]
"""Called after each sample with the number done and the total, if known."""

Stage = Callable[[str], None]
"""Called with the name of the next stage."""


class ReportSubject(Runnable, Protocol):
    """A compiled program."""

    @property
    def ledger(self) -> Ledger:
        """Where each op runs, and why."""

    @property
    def optimize(self) -> Optimize:
        """Whether kernels are chosen for speed or size."""

    @property
    def floats(self) -> FloatModel | None:
        """The float model before quantization, if available."""

    @property
    def lowered(self) -> CProgram:
        """The C form of the program."""

    @property
    def npu_constant_bytes(self) -> int:
        """Bytes of NPU weights that are copied to RAM."""

    @property
    def npu_memory(self) -> NpuMemory:
        """Bytes that the NPU's segments need besides the arena and the core's constants."""

    @property
    def sram_bytes(self) -> int:
        """Bytes of RAM during a run."""


@dataclass(frozen=True)
class ReportOptions:
    """The options of a report."""

    data: Any = None
    """Samples for quantization quality: an iterable, or a path."""
    samples: int = 16
    """Most samples used."""
    measure: bool = True
    """Whether instructions are counted, if the tools are installed."""
    command: str = ""
    """The command line that reproduces the report."""
    named_files: Mapping[str, Path] | None = None
    """Input files by purpose; their hashes are reported."""
    conditions: TimingConditions | None = None
    """The conditions of a time estimate; None for no estimate."""
    progress: Progress | None = None
    stage: Stage | None = None
    max_flash: int | None = None
    """The user's limit in bytes; None for the chip's flash, if it is known."""
