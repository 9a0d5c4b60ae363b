# SPDX-License-Identifier: Apache-2.0
"""What an evaluation found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Agreement:
    """How far another executor gives the same outputs: on the first samples, byte for byte."""

    executor: str
    samples: int
    same: int
    """Samples all of whose bytes are equal."""
    bytes_different: int
    skipped: str = ""
    """Why it could not take part."""


@dataclass(frozen=True)
class FloatBeside:
    """What the float model gets on the same samples, and how near the program is to it."""

    metrics: dict[str, float]
    same_answer: float | None
    """The share of samples for which the largest number of the first output is at the same place; None where it has one number."""
    signal_to_noise_db: float | None
    """The power of the float model's first output over that of the difference, in decibels; None where nothing differs or all is zero."""


@dataclass(frozen=True)
class Evaluation:
    """What a program gets on data."""

    model: str
    target: str
    data: str
    on: str
    metrics: dict[str, float]
    samples: int
    seconds: float
    """The time from the first sample to the last, reading included; building the program and the float model beside are not."""
    workers: int = 1
    labels: int = 0
    """How many different class labels were seen; 0 where labels are not classes."""
    confusion: tuple[tuple[int, ...], ...] | None = None
    """Rows are labels, columns are answers."""
    classes: tuple[str, ...] = ()
    float_model: FloatBeside | None = None
    agreements: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What a user should know of the numbers."""

    @property
    def samples_per_second(self) -> float:
        """The samples that went through in a second."""
        return self.samples / max(self.seconds, 1e-9)

    @property
    def accuracy(self) -> float | None:
        """The share of right answers, where it was asked for."""
        return self.metrics.get("top1")
