# SPDX-License-Identifier: Apache-2.0
"""What a stream takes and what its answers mean, for those who feed it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Meaning(Enum):
    """What the answers of a stream equal, byte for byte."""

    WINDOW = "window"
    SIGNAL = "signal"
    BOTH = "both"

    @property
    def text(self) -> str:
        """What it means in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Meaning.WINDOW: "those of the whole model to the last frames, one window of them",
    Meaning.SIGNAL: "those of one run over the whole signal since the reset: padding and what layers begin with come before it, and never later",
    Meaning.BOTH: "those of one run over the whole signal since the reset and, once a window is full, those of the whole model to the last window",
}


@dataclass(frozen=True)
class Fed:
    """An input that is fed a few frames at a time."""

    name: str
    axis: int
    window: int
    """The frames that the whole model looks at."""
    frames: int
    """The frames that are new in each run."""

    def __post_init__(self) -> None:
        if self.axis < 0 or not 0 < self.frames < self.window:
            raise ValueError(
                f"{self.frames} of {self.window} frames along axis {self.axis} are no part of a window"
            )


@dataclass(frozen=True)
class Answer:
    """An output, and what there is of it in each run."""

    name: str
    first: int
    """The run, counted from 1 after a reset, from which on the answer means something."""
    rows: int = 0
    """The rows that are new in each run; 0 where it has no time axis, and the whole is new."""
    axis: int = 0

    def __post_init__(self) -> None:
        if self.first < 1 or self.rows < 0 or self.axis < 0:
            raise ValueError(f"answers of {self.rows} rows along axis {self.axis} from run {self.first} on")

    @property
    def text(self) -> str:
        """What a run answers, in words."""
        new = f"{self.rows} new rows (axis {self.axis})" if self.rows else "a new answer"
        return f"{self.name}: {new} in each run, from run {self.first} after a reset on"


@dataclass(frozen=True)
class Streaming:
    """How a program is fed, and what it answers."""

    inputs: tuple[Fed, ...]
    answers: tuple[Answer, ...]
    meaning: Meaning
    calls: int = 1
    """How often frames are handed over until there are enough for a run: strides in time may want more at once than the hop."""

    def __post_init__(self) -> None:
        if self.calls < 1 or any(fed.frames % self.calls for fed in self.inputs):
            raise ValueError(f"{self.calls} calls do not share the frames of a run")

    @property
    def first(self) -> int:
        """The run, counted from 1 after a reset, from which on all answers mean something."""
        return max((answer.first for answer in self.answers), default=1)

    def hop(self, fed: Fed) -> int:
        """Gives the frames of an input that are handed over at a time."""
        return fed.frames // self.calls

    @property
    def takes(self) -> tuple[str, ...]:
        """What is handed over, in words."""
        more = f", {self.calls} calls are a run" if self.calls > 1 else ""
        who = "call" if self.calls > 1 else "run"
        return tuple(
            f"{self.hop(fed)} new of {fed.window} frames of {fed.name} (axis {fed.axis}) in each {who}{more}"
            for fed in self.inputs
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it in words."""
        takes = (f"takes {text}" for text in self.takes)
        return *takes, *(answer.text for answer in self.answers), f"answers equal {self.meaning.text}"
