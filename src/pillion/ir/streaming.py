# SPDX-License-Identifier: Apache-2.0
"""What a stream takes and what its answers mean, for those who feed it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Meaning(Enum):
    """What the answers of a stream equal, byte for byte."""

    WINDOW = "those of the whole model to the last frames, one window of them"
    SIGNAL = "those of one run over the whole signal since the reset: there is padding in front of it, and none later"
    BOTH = "those of one run over the whole signal since the reset and, once a window is full, those of the whole model to the last window"


@dataclass(frozen=True)
class Fed:
    """An input that is fed a few frames at a time."""

    name: str
    axis: int
    window: int
    """The frames that the whole model looks at."""
    frames: int
    """The frames that are new in each run."""

    @property
    def text(self) -> str:
        """What a run takes, in words."""
        return f"{self.frames} new of {self.window} frames of {self.name} (axis {self.axis})"


@dataclass(frozen=True)
class Answer:
    """An output, and what there is of it in each run."""

    name: str
    first: int
    """The run, counted from 1 after a reset, from which on the answer means something."""
    rows: int = 0
    """The rows that are new in each run; 0 where it has no time axis, and the whole is new."""
    axis: int = 0

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

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it in words."""
        takes = "each run takes " + ", ".join(fed.text for fed in self.inputs)
        return takes, *(answer.text for answer in self.answers), f"answers equal {self.meaning.value}"
