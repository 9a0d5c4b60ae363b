# SPDX-License-Identifier: Apache-2.0
"""The executor protocol: a verdict on whether it can run a program, and the results of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pillion.boards.elf import ElfSizes
from pillion.devices.payloads import Payloads
from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.manifest import ManifestOp
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content
from pillion.host_io.child_process import MOST_SECONDS
from pillion.importers.pte import ReadProgram
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Segment
from pillion.option_values import EXECUTORCH as EXECUTORCH
from pillion.option_values import HOST as HOST
from pillion.option_values import LITERT as LITERT
from pillion.option_values import LITERT_FILE as LITERT_FILE
from pillion.option_values import NPU as NPU
from pillion.option_values import REFERENCE as REFERENCE
from pillion.targets import Target

TIMEOUT_SECONDS = 60.0
Outputs = tuple[Array, ...]
Samples = Sequence[Sequence[Array]]
"""The inputs of several runs: an array per input for each sample."""


@dataclass(frozen=True)
class DifferingRegion:
    """The predicted and the actual size of a memory region."""

    name: str
    predicted: int
    found: int


@dataclass(frozen=True)
class Profile:
    """The measurements of a board for one run, in instructions, not cycles."""

    instructions: int
    """The instructions of the core's ops, without the NPU's stand-in."""
    op_instructions: tuple[int, ...]
    """The instructions of each op; for a segment, of its stand-in."""
    stack_bytes: int
    elf: ElfSizes
    """The sizes of the linked firmware."""
    regions: tuple[DifferingRegion, ...]
    ops: tuple[ManifestOp, ...] = ()
    """The manifest's entry of each op."""

    @property
    def code_bytes(self) -> int:
        """The code of the model and its kernels in bytes."""
        return self.elf.code


@dataclass(frozen=True)
class BoardProfile:
    """The measurements of a board at the other end of a line, for one run."""

    chip: str
    clock_hz: int
    compiler: str
    flags: str
    program_hash: str
    is_emulated: bool
    """Whether `op_cycles` are instructions of an emulator."""
    op_cycles: tuple[int, ...]
    stack_bytes: int | None
    """None if the board does not know where its stack ends."""
    ops: tuple[ManifestOp, ...]
    """The manifest's entry of each op."""

    @property
    def cycles(self) -> int:
        """The cycles of all ops."""
        return sum(self.op_cycles)


@dataclass(frozen=True)
class RunResult:
    """The outputs of a run, and its profile if requested."""

    outputs: Outputs
    profile: Profile | None = None
    measured: BoardProfile | None = None
    """The profile, if the run was on a board at the other end of a line."""


def check_timeout(seconds: float) -> None:
    """Raises if a time limit is invalid."""
    if not 0 < seconds <= MOST_SECONDS:
        raise PillionError(
            f"{seconds:g} s is no time limit",
            rule=f"a number of seconds above 0, {MOST_SECONDS:,} at most",
            here=f"{seconds:g}",
            help="--timeout 60, timeout=60 in Python",
        )


@dataclass(frozen=True)
class RunOptions:
    """The options of a run: its time limit, its profile, and the processor of compiled C."""

    timeout: float = TIMEOUT_SECONDS
    """The limit for one sample in seconds."""
    profile: bool = False
    """Whether a board counts instructions and memory."""
    native: bool = False
    """Whether C may use all instructions of this computer's processor, including vector kernels: the same
    bytes, faster."""
    stream: bool = False
    """Whether samples are the steps of one stream, which starts with reset states; otherwise each sample
    does."""

    def __post_init__(self) -> None:
        check_timeout(self.timeout)


DEFAULTS = RunOptions()
"""The defaults: a minute per sample, and no profile."""


class Runnable(Protocol):
    """The input of an executor: a graph of integer ops, compiled for a target."""

    @property
    def graph(self) -> Graph:
        """The ops of the program."""

    @property
    def target(self) -> Target:
        """The chip that the program is compiled for."""

    @property
    def file(self) -> ReadProgram | None:
        """The .pte file that the program was read from, or None."""

    @property
    def source(self) -> bytes | None:
        """The .tflite file that the model was read from, or None."""

    @property
    def files(self) -> Mapping[str, Content]:
        """Path → content of the C project."""

    @property
    def lowered(self) -> CProgram:
        """The C form."""

    @property
    def payloads(self) -> Payloads:
        """The NPU's payload of each segment."""

    def for_graph(self, graph: Graph) -> Runnable:
        """Returns the program of another graph, such as a part of this one."""


class Executor(Protocol):
    """Anything that runs programs: the reference, this computer, a board, another project's runtime."""

    @property
    def name(self) -> str:
        """The name for `--on`."""

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether it can run the program here, and otherwise the help to make it so."""

    def run(self, program: Runnable, samples: Samples, options: RunOptions = ...) -> list[RunResult]:
        """Returns the results of the samples, in order. States are reset before each, or before the first one
        of a stream."""


def require_open_segments(program: Runnable) -> None:
    """Raises if only the NPU's own code of a segment is known, which only `NPU` executes."""
    for op in program.graph.ops:
        if isinstance(op, Segment):
            op.require_open()


def verdict_of_checks(rule: str, *checks: Callable[[], object]) -> Verdict:
    """Returns a verdict from checks that raise."""
    try:
        for check in checks:
            check()
    except PillionError as error:
        return Verdict(rule, False, error.rule, error.here, error.what, error.help)
    return Verdict(rule, True, "what it needs", "all of it")


def require_runnable(executor: Executor, program: Runnable) -> None:
    """Raises if an executor cannot run a program."""
    verdict = executor.judge(program)
    if not verdict.ok:
        raise PillionError(
            verdict.what or f"{executor.name} cannot run the program",
            rule=verdict.wanted,
            here=verdict.got,
            help=verdict.help,
        )
