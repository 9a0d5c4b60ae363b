# SPDX-License-Identifier: Apache-2.0
"""What an executor is: anything that runs programs. Each says by a verdict whether it can run one, and runs it on samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pillion.choices import EXECUTORCH as EXECUTORCH
from pillion.choices import HOST as HOST
from pillion.choices import LITERT as LITERT
from pillion.choices import LITERT_FILE as LITERT_FILE
from pillion.choices import NPU as NPU
from pillion.choices import REFERENCE as REFERENCE
from pillion.devices.payloads import Payloads
from pillion.emitters.c.manifest import OpFacts
from pillion.errors import PillionError
from pillion.importers.pte import ReadProgram
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Segment
from pillion.outside.child import MOST_SECONDS
from pillion.outside.files import Content
from pillion.targets import Target

TIMEOUT_SECONDS = 60.0
Outputs = tuple[Array, ...]
Samples = Sequence[Sequence[Array]]
"""The inputs of several runs: for each sample an array for each input."""


@dataclass(frozen=True)
class Region:
    """The bytes of one kind as the compiler predicted them and as they are in the linked firmware."""

    name: str
    predicted: int
    found: int


@dataclass(frozen=True)
class Profile:
    """The numbers that a board reports of one run: instructions, not cycles."""

    instructions: int
    op_instructions: tuple[int, ...]
    stack_bytes: int
    code_bytes: int
    regions: tuple[Region, ...]
    ops: tuple[OpFacts, ...] = ()
    """What the compiler said of each op."""


@dataclass(frozen=True)
class RunResult:
    """The outputs of a run, and what was measured if that was asked for."""

    outputs: Outputs
    profile: Profile | None = None


def check_timeout(seconds: float) -> None:
    """Raises where a time limit is none."""
    if not 0 < seconds <= MOST_SECONDS:
        raise PillionError(
            f"{seconds:g} s is no time limit",
            rule=f"a number of seconds above 0, {MOST_SECONDS:,} at most",
            here=f"{seconds:g}",
            help="--timeout 60, timeout=60 in Python",
        )


@dataclass(frozen=True)
class RunOptions:
    """The options of a run: its time limit, whether it is measured, and for which processor C is compiled."""

    timeout: float = TIMEOUT_SECONDS
    """Seconds that one sample may take."""
    profile: bool = False
    """Whether a board counts instructions and memory."""
    native: bool = False
    """Whether all that this computer's processor has may be used, kernels for its vectors included: the same bytes, sooner."""
    stream: bool = False
    """Whether samples are the steps of one stream, which begins with reset states; else each of them does."""

    def __post_init__(self) -> None:
        check_timeout(self.timeout)


USUAL = RunOptions()
"""A minute for each sample, and nothing measured."""


class Runnable(Protocol):
    """What every executor is handed: a graph of integer ops that is compiled for a target."""

    @property
    def graph(self) -> Graph:
        """The ops that are run."""

    @property
    def target(self) -> Target:
        """The chip that the program is compiled for."""

    @property
    def file(self) -> ReadProgram | None:
        """The .pte file that the program was read from, if it was."""

    @property
    def source(self) -> bytes | None:
        """The .tflite file that the model was read from, if it was."""

    @property
    def files(self) -> Mapping[str, Content]:
        """Gives path → content of the C project."""

    @property
    def payloads(self) -> Payloads:
        """What the NPU is handed for each segment."""

    def of(self, graph: Graph) -> Runnable:
        """Gives the program of another graph: a part of this one, when a difference is looked for."""


class Executor(Protocol):
    """Anything that can run programs: the reference, this computer, a board, a runtime of another project."""

    @property
    def name(self) -> str:
        """The name that users choose it by."""

    def judge(self, program: Runnable) -> Verdict:
        """Says whether it can run the program here; the help of a verdict that is not ok says what would let it."""

    def run(self, program: Runnable, samples: Samples, options: RunOptions = ...) -> list[RunResult]:
        """Runs each sample, and gives the results in the same order. States are reset before each, or before the first one of a stream."""


def want_open(program: Runnable) -> None:
    """Raises where a segment of a program is known as the NPU's own code alone, which only `NPU` executes."""
    for op in program.graph.ops:
        if isinstance(op, Segment):
            op.want_open()


def judged(rule: str, *checks: Callable[[], object]) -> Verdict:
    """Turns checks that raise where something is missing into a verdict."""
    try:
        for check in checks:
            check()
    except PillionError as error:
        return Verdict(rule, False, error.rule, error.here, error.what, error.help)
    return Verdict(rule, True, "what it needs", "all of it")


def want_runnable(executor: Executor, program: Runnable) -> None:
    """Raises where an executor cannot run a program."""
    verdict = executor.judge(program)
    if not verdict.ok:
        raise PillionError(
            verdict.what or f"{executor.name} cannot run the program",
            rule=verdict.wanted,
            here=verdict.got,
            help=verdict.help,
        )
