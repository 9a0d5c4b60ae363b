# SPDX-License-Identifier: Apache-2.0
"""The result of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Agreement:
    """Byte-for-byte agreement of another executor on the first samples."""

    executor: str
    samples: int
    same: int
    """Number of samples with all bytes equal."""
    bytes_different: int
    skipped: str = ""
    """The reason why the executor did not run."""


@dataclass(frozen=True)
class FloatComparison:
    """The float model's metrics on the same samples, and its distance from the program."""

    metrics: dict[str, float]
    same_answer: float | None
    """Fraction of samples with the same argmax of the first output; None if it has one number."""
    signal_to_noise_db: float | None
    """Power of the float model's first output over that of the difference, in dB; None if there is no difference
    or no signal."""


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a program on data."""

    model: str
    target: str
    data: str
    on: str
    metrics: dict[str, float]
    samples: int
    seconds: float
    """Time from the first sample to the last, including reading, excluding the build and the float model."""
    workers: int = 1
    labels: int = 0
    """Number of distinct class labels; 0 if labels are not classes."""
    confusion: tuple[tuple[int, ...], ...] | None = None
    """Confusion matrix: rows are labels, columns are answers."""
    classes: tuple[str, ...] = ()
    float_model: FloatComparison | None = None
    agreements: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """Caveats about the numbers."""

    @property
    def samples_per_second(self) -> float:
        """Samples per second."""
        return self.samples / max(self.seconds, 1e-9)

    @property
    def accuracy(self) -> float | None:
        """The fraction of right answers, if measured."""
        return self.metrics.get("top1")
