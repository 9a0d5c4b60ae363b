# SPDX-License-Identifier: Apache-2.0
"""The result of a job: figures, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pillion.errors import PillionError

_MEASURED = ("flash_bytes", "stack_bytes", "instructions")


@dataclass(frozen=True)
class Figures:
    """The figures of a compiled variant; None for figures that were not measured."""

    ram_bytes: int
    """Arena and NPU weights in RAM, without the stack."""
    arena_bytes: int
    npu_constant_bytes: int
    constant_bytes: int
    """Weights and model description."""
    macs: int
    flash_bytes: int | None = None
    """Code and constants of the linked firmware, without start-up code. None with an NPU, because a software
    stand-in is linked."""
    stack_bytes: int | None = None
    instructions: int | None = None
    """Instructions of the core for one inference."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Returns the names of all figures."""
        return tuple(figure.name for figure in fields(cls))

    @staticmethod
    def measured() -> tuple[str, ...]:
        """Returns the names of the figures that need a cross compiler and an emulator."""
        return _MEASURED


@dataclass(frozen=True)
class Failure:
    """The reason why a variant has no figures, in the four parts of an error."""

    what: str
    rule: str
    here: str
    help: str
    is_lasting: bool = True
    """Whether the failure would recur, as refusals do. The next sweep retries others."""

    @property
    def error(self) -> PillionError:
        """Returns the failure as an error."""
        return PillionError(self.what, rule=self.rule, here=self.here, help=self.help)


def failure_from_error(error: PillionError) -> Failure:
    """Returns a refusal as data."""
    return Failure(error.what, error.rule, error.here, error.help)


@dataclass(frozen=True)
class JobResult:
    """The result of a job, without files."""

    figures: Figures | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the compiled program on the sweep's data."""
    failure: Failure | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Reasons for missing measurements and files, by name."""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if (self.figures is None) == (self.failure is None):
            raise ValueError("a result has either figures or a failure")

    def value(self, name: str) -> float | None:
        """Returns a figure or metric by name, or None."""
        if self.figures is not None and name in Figures.names():
            number: float | None = getattr(self.figures, name)
            return number
        return self.metrics.get(name)


@dataclass(frozen=True)
class JobOutput:
    """A worker's reply: the result, the variant's files by path, and the printed text."""

    result: JobResult
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: str = ""


def killed_worker_output(model: str) -> JobOutput:
    """Returns the result of a job that kills every worker."""
    failure = Failure(
        f"`{model}` ended its worker",
        "a job leaves its worker alive; it was tried on several",
        "killed again and again: for lack of memory, or by a crash",
        "fewer --workers leave each more memory; the next sweep tries it again",
        is_lasting=False,
    )
    return JobOutput(JobResult(failure=failure))
