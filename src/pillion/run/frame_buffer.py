# SPDX-License-Identifier: Apache-2.0
"""Collects the new frames of a stream until they suffice for a run, as the C does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.stream_io import FedInput, Streaming
from pillion.ir.types import Array, Value


@dataclass
class FrameBuffer:
    """The frames that wait for a run, and the number of runs since the reset."""

    graph: Graph
    streaming: Streaming
    runs: int = 0
    waiting: tuple[Sequence[Array], ...] = ()

    @property
    def graph_of_call(self) -> Graph:
        """A graph whose inputs have the frames of one call, for checks."""
        return self.graph.replace(inputs=tuple(map(self._value_of_call, self.graph.inputs)))

    def take(self, inputs: Sequence[Array]) -> tuple[Sequence[Array] | None, bool]:
        """Adds the frames of a call. Returns the inputs of a run if it is due, and whether its outputs are
        valid."""
        self.waiting = (*self.waiting, inputs)
        if len(self.waiting) < self.streaming.calls:
            return None, False
        calls, self.waiting = self.waiting, ()
        self.runs += 1
        joined = [self._join_frames(v, [call[i] for call in calls]) for i, v in enumerate(self.graph.inputs)]
        return joined, self.runs >= self.streaming.first

    def reset(self) -> None:
        """Discards all frames."""
        self.runs, self.waiting = 0, ()

    def _fed_input(self, value: Value) -> FedInput | None:
        return next((fed for fed in self.streaming.inputs if fed.name == value.name), None)

    def _value_of_call(self, value: Value) -> Value:
        fed = self._fed_input(value)
        if fed is None:
            return value
        count = self.streaming.hop(fed)
        shape = tuple(count if axis == fed.axis else size for axis, size in enumerate(value.shape))
        return replace(value, type=replace(value.type, shape=shape))

    def _join_frames(self, value: Value, parts: Sequence[Array]) -> Array:
        fed = self._fed_input(value)
        return np.concatenate(parts, axis=fed.axis) if fed is not None else parts[-1]
