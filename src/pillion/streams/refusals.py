# SPDX-License-Identifier: Apache-2.0
"""Refusals of streams, each with the op, the rule and the change to make."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pillion.compile_options import Stream
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import BatchMatmul, Normalize, Scan, Softmax

CAUSAL = (
    "no padding in time, or padding in front only: F.pad(x, (k - 1, 0)) before a convolution without padding, "
    'padding="causal" in Keras'
)


LOOK_BACK = "take a mean or maximum over time before it, make it look back only or along another axis, or leave --stream out"
ATTENTION = (
    "attention and weighted sums over time see all frames at once: in their place a mean or maximum over time, or layers that look back "
    "only (causal convolutions, a GRU or LSTM); or leave --stream out"
)
INSTEAD = {
    Scan.kind: "bidirectional=False: a layer that begins with the last frame waits for all of them; or leave --stream out",
    Normalize.kind: "normalize each frame over its channels (LayerNorm over the last axis of [batch, time, channels]), or BatchNorm, "
    "which becomes part of the weights",
    Softmax.kind: "a softmax over channels, a mean or maximum over time in the place of what it weights, or leave --stream out",
    BatchMatmul.kind: ATTENTION,
}
"""Ways out for ops that need their own."""


@dataclass(frozen=True)
class Refusal:
    """A rule of streams, and the remedy for ops that break it; by default the remedy of their kind."""

    rule: str
    help: str = ""

    def error(self, op: Op, here: str) -> PillionError:
        """Returns the error for an op, with the value found."""
        return op.refuse(self.rule, here, self.help or INSTEAD.get(op.kind, LOOK_BACK), "cannot be streamed")


WHOLE_WINDOW = Refusal(
    "an op makes its rows from a few rows, once and for all, or makes one answer of the whole window (mean, max, flatten, linear)"
)
MIXED_FRAMES = Refusal("an op makes its rows from a few rows, once and for all")
ROW_MISMATCH = Refusal(
    "operands have their rows along one axis, at one pace",
    "bring both to one pace first: the same strides in time on both ways",
)
MEETS_WINDOW = Refusal(
    "rows that are kept do not change: what they meet is made of rows that go along with them",
    "leave out what sees the whole window (squeeze-and-excite, normalization over time), or do it over channels only",
)
MEETS_OTHER_INPUT = Refusal(
    "rows that are kept do not change: what they meet is streamed too, or constant",
    "--stream for that input too, or let it (or the state) meet the stream behind the mean over time",
)
STATE_OF_ROWS = Refusal(
    "a state of the model itself is no row over time: the stream keeps these",
    "make it of a mean or maximum over time, or of one answer of the whole window",
)
CONSTANT_BY_ROW = Refusal(
    "rows are made alike wherever in the window they lie",
    "leave positions in time out (position embeddings, masks), or use the same numbers for all frames",
)
PADDING_BEHIND = Refusal(
    "there is nothing behind the last frame: rows there will come with later calls", CAUSAL
)
UNCOUNTED_PADDING = Refusal(
    "a mean over windows in time counts as many rows everywhere",
    "count_include_pad=True behind F.pad, or no padding in time",
)
MIXED_PADDING = Refusal(
    "padding in front lies before the first frame of the signal",
    "padding in front for all ops or for none of them, and a window that is a multiple of all strides in time",
)
LATE_BEGIN = Refusal(
    "a layer that goes from row to row begins with the first frame of the signal",
    "padding in front for the ops before it (F.pad(x, (k - 1, 0)) before a convolution), and a window that is a multiple of all strides "
    "in time",
)


def begins_later(x: Value) -> str:
    """Describes a value whose first row is not the first of the signal."""
    return f"`{x.name}` begins later: ops before it have no padding in time, or strides that do not divide the window"


def find_stream_inputs(graph: Graph, spec: Stream) -> dict[Value, int]:
    """Returns the inputs that a specification names, with their time axes."""
    known = {v.name: v for v in graph.inputs}
    time_axes: dict[Value, int] = {}
    for name, axis in spec.inputs:
        value = known.get(name)
        if value is None:
            listed = ", ".join(f"{v.name}{list(v.shape)}" for v in graph.inputs)
            first = graph.inputs[0]
            raise PillionError(
                f"`{graph.name}` has no input `{name}`",
                rule="--stream names an input, and the axis along which its frames lie",
                here=f"inputs: {listed}",
                help=f"--stream {first.name}:{_longest_axis(first)}",
            )
        if not 0 <= axis < value.type.rank:
            raise PillionError(
                f"input `{name}` of `{graph.name}` has no axis {axis}",
                rule=f"axes of {list(value.shape)} are counted from 0 to {value.type.rank - 1}",
                here=f"--stream {name}:{axis}",
                help=f"--stream {name}:{_longest_axis(value)}",
            )
        time_axes[value] = axis
    return time_axes


def _longest_axis(value: Value) -> int:
    return max(range(value.type.rank), key=lambda axis: value.shape[axis], default=0)


def require_hop_within_window(graph: Graph, spec: Stream, hop: int, frames: int) -> None:
    """Raises if a call would take the whole window."""
    if hop < frames:
        return
    name, axis = spec.inputs[0]
    why = f", a multiple of {spec.frames} and of all strides in time," if hop != spec.frames else ""
    raise PillionError(
        f"{hop} new frames are the whole window of `{graph.name}`",
        rule=f"a call takes fewer frames than the window's {frames}, along axis {axis} of `{name}`",
        here=f"--hop {spec.frames}: {hop} frames{why} are new in each answer",
        help="a smaller --hop, another axis, or leave --stream out: nothing would be kept",
    )


def fractional_frames_error(graph: Graph, spec: Stream, value: Value, axis: int) -> PillionError:
    """Returns the error for inputs of different rates, where a call would take a fraction of a frame."""
    frames = value.shape[axis]
    first, its_axis = spec.inputs[0]
    window = next(v.shape[its_axis] for v in graph.inputs if v.name == first)
    return PillionError(
        f"{spec.frames} new frames of `{first}` are no whole number of frames of `{value.name}`",
        rule="all streamed inputs are fed in step: as large a part of their windows at a time",
        here=f"windows of {window} and {frames} frames, --hop {spec.frames}",
        help=f"--hop {window // math.gcd(window, frames)}",
    )
