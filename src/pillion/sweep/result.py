# SPDX-License-Identifier: Apache-2.0
"""What is known of a variant when its job is done: its figures, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pillion.errors import PillionError

_MEASURED = ("flash_bytes", "stack_bytes", "instructions")


@dataclass(frozen=True)
class Figures:
    """The numbers of a compiled variant. What the emulator has to measure is None where that was not done."""

    ram_bytes: int
    """The arena, and the NPU's weights, which are copied to RAM. The stack comes on top."""
    arena_bytes: int
    npu_constant_bytes: int
    constant_bytes: int
    """Weights, and what describes the model."""
    macs: int
    flash_bytes: int | None = None
    """Code and constants in the linked firmware, without start-up. With an NPU, whose stand-in is linked there, nobody knows."""
    stack_bytes: int | None = None
    instructions: int | None = None
    """Those of the core for one inference."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Gives the names of all figures."""
        return tuple(one.name for one in fields(cls))

    @staticmethod
    def measured() -> tuple[str, ...]:
        """Gives the names of those that take a cross compiler and an emulator."""
        return _MEASURED


@dataclass(frozen=True)
class Failure:
    """Why a variant has no figures, in the four parts of an error."""

    what: str
    rule: str
    here: str
    help: str
    is_lasting: bool = True
    """Whether the same would happen again: a refusal. What may have been an accident is tried again by the next sweep."""

    @property
    def error(self) -> PillionError:
        """Gives the failure as the error that it was."""
        return PillionError(self.what, rule=self.rule, here=self.here, help=self.help)


def failure_of(error: PillionError) -> Failure:
    """Gives a refusal as data."""
    return Failure(error.what, error.rule, error.here, error.help)


@dataclass(frozen=True)
class Result:
    """What a job gives, but for the files."""

    figures: Figures | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the compiled program gets on the data of the sweep."""
    failure: Failure | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What could not be measured or written → why."""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if (self.figures is None) == (self.failure is None):
            raise ValueError("a result has either figures or a failure")

    def value(self, name: str) -> float | None:
        """Gives a figure or a metric by its name; None where there is none."""
        if self.figures is not None and name in Figures.names():
            number: float | None = getattr(self.figures, name)
            return number
        return self.metrics.get(name)


@dataclass(frozen=True)
class Done:
    """What a worker gives back: the result, the files of the variant by their paths, and what was printed on the way."""

    result: Result
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: str = ""
