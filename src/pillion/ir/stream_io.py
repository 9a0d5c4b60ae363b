# SPDX-License-Identifier: Apache-2.0
"""The interface of a stream: the frames that it receives, and the meaning of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StreamOutputMeaning(Enum):
    """The meaning of a stream's outputs: the values that they equal, byte for byte."""

    WINDOW = "window"
    SIGNAL = "signal"
    BOTH = "both"

    @property
    def text(self) -> str:
        """A description for users."""
        return _MEANINGS[self]


_MEANINGS = {
    StreamOutputMeaning.WINDOW: "those of the whole model to the last frames, one window of them",
    StreamOutputMeaning.SIGNAL: "those of one run over the whole signal since the reset: padding and what layers begin with come before it, and never later",
    StreamOutputMeaning.BOTH: "those of one run over the whole signal since the reset and, once a window is full, those of the whole model to the last window",
}


@dataclass(frozen=True)
class FedInput:
    """An input that receives a few frames at a time."""

    name: str
    axis: int
    window: int
    """Frames in the whole model's window."""
    frames: int
    """New frames in each run."""

    def __post_init__(self) -> None:
        if self.axis < 0 or not 0 < self.frames < self.window:
            raise ValueError(
                f"{self.frames} of {self.window} frames along axis {self.axis} are no part of a window"
            )


@dataclass(frozen=True)
class StreamOutput:
    """An output of a stream, and which part of it is new in each run."""

    name: str
    first: int
    """The first run, counted from 1 after a reset, whose output is valid."""
    rows: int = 0
    """New rows in each run; 0 if the output has no time axis and is new as a whole."""
    axis: int = 0

    def __post_init__(self) -> None:
        if self.first < 1 or self.rows < 0 or self.axis < 0:
            raise ValueError(f"answers of {self.rows} rows along axis {self.axis} from run {self.first} on")

    @property
    def text(self) -> str:
        """A description of the output for users."""
        new = f"{self.rows} new rows (axis {self.axis})" if self.rows else "a new answer"
        return f"{self.name}: {new} in each run, from run {self.first} after a reset on"


@dataclass(frozen=True)
class Streaming:
    """The inputs and outputs of a stream."""

    inputs: tuple[FedInput, ...]
    answers: tuple[StreamOutput, ...]
    meaning: StreamOutputMeaning
    calls: int = 1
    """Calls that deliver the frames of one run: strides in time may need more frames at once than the hop."""

    def __post_init__(self) -> None:
        if self.calls < 1 or any(fed.frames % self.calls for fed in self.inputs):
            raise ValueError(f"{self.calls} calls do not share the frames of a run")

    @property
    def first(self) -> int:
        """The first run, counted from 1 after a reset, whose outputs are all valid."""
        return max((answer.first for answer in self.answers), default=1)

    def hop(self, fed: FedInput) -> int:
        """Returns the frames of an input that each call delivers."""
        return fed.frames // self.calls

    @property
    def takes(self) -> tuple[str, ...]:
        """Descriptions of the inputs for users."""
        more = f", {self.calls} calls are a run" if self.calls > 1 else ""
        who = "call" if self.calls > 1 else "run"
        return tuple(
            f"{self.hop(fed)} new of {fed.window} frames of {fed.name} (axis {fed.axis}) in each {who}{more}"
            for fed in self.inputs
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A description of the stream for users."""
        takes = (f"takes {text}" for text in self.takes)
        return *takes, *(answer.text for answer in self.answers), f"answers equal {self.meaning.text}"
