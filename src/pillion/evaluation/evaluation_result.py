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
    """Ratio of the power of the float model's first output to the difference's, in dB; None without difference or
    signal."""


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


@dataclass(frozen=True)
class RecordingEvents:
    """The events of a recording, and the answers to it; times are in seconds."""

    recording: str
    seconds: float
    steps: int
    events: int
    delays: tuple[float, ...]
    """For each event that was found, the time from its beginning to the end of the step that answers."""
    missed: tuple[float, ...]
    """When the events begin that were not found."""
    false_alarms: tuple[float, ...]
    """When answers came that no event explains."""
    repeated: int
    """The number of answers to events that had been found before."""


@dataclass(frozen=True)
class EventEvaluation:
    """A program's answers to recordings with events."""

    model: str
    target: str
    data: str
    on: str
    recordings: tuple[RecordingEvents, ...]
    agreements: tuple[Agreement, ...] = ()

    @property
    def seconds(self) -> float:
        """The length of all recordings."""
        return sum(one.seconds for one in self.recordings)

    @property
    def events(self) -> int:
        """The number of events in all recordings."""
        return sum(one.events for one in self.recordings)

    @property
    def delays(self) -> tuple[float, ...]:
        """The delays of all events that were found."""
        return tuple(delay for one in self.recordings for delay in one.delays)

    @property
    def false_alarms(self) -> int:
        """The number of answers that no event explains."""
        return sum(len(one.false_alarms) for one in self.recordings)

    @property
    def metrics(self) -> dict[str, float]:
        """The share of events found, false alarms per hour and the mean delay, each if it is known."""
        found: dict[str, float] = {}
        if self.events:
            found["found_share"] = len(self.delays) / self.events
        if self.seconds:
            found["false_alarms_per_hour"] = self.false_alarms / self.seconds * 3600
        if self.delays:
            found["mean_delay_seconds"] = sum(self.delays) / len(self.delays)
        return found
