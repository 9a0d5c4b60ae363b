# SPDX-License-Identifier: Apache-2.0
"""Time axes: the axis along which a value's rows follow each other in time, and the number of new rows in each call.

A value either has rows that are computed once and kept, or it is *whole*: recomputed in each call. An op that allows
neither, because its rows would change in each call, is refused with the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from pillion.compile_options import Stream
from pillion.errors import PillionError
from pillion.ir.access import AxisMap, Span
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Biquads, Linear, Reshape, Scan, Slice
from pillion.ops.compare_select import ArgExtremum
from pillion.ops.pool import Pool
from pillion.ops.reduce import Reduction
from pillion.streams import refusals

ENDS_OF_TIME = (Reduction, ArgExtremum, Pool, Linear, Reshape)
"""Ops that may reduce the whole window; everything after them is recomputed in every call."""


@dataclass(frozen=True)
class RowTrack:
    """The rows of a value: their axis, the number of rows in the window, and the number of new rows, the last ones,
    in each call."""

    axis: int
    size: int
    step: int
    lag: Fraction
    """The number of the first row of the first call, counted from the reset."""
    dirty: int = 0
    """The number of leading rows of the window that depend on padding."""
    behind: int = 0
    """Elements along the axis, behind the rows, that are no rows: the state of a filter."""

    @property
    def new(self) -> Span:
        """The rows of the window that are new in each call."""
        return Span(self.size - self.step, self.step)

    def is_behind(self, op: Slice) -> bool:
        """Whether a slice takes elements behind the rows."""
        return op.begin[self.axis] >= self.size


@dataclass(frozen=True)
class RowUse:
    """The rows of an operand that an op needs in each call; None for an operand without rows."""

    rows: Span
    level: float | None = None
    """The value of rows before the first one, if the op defines it."""


@dataclass(frozen=True)
class StreamedOp:
    """How an op runs in each call: whole, or for the new rows of its result."""

    op: Op
    uses: Mapping[Value, RowUse]
    axis: int = 0
    rows: int = 0
    """The rows that it computes; 0 for its whole result."""
    is_cut: bool = False
    """Whether the op gets the attributes of a tile."""


class FractionalRow(Exception):
    """Raised if a value would get a fraction of a row in each call: the hop must be a multiple of the given
    number."""

    def __init__(self, factor: int) -> None:
        super().__init__(factor)
        self.factor = factor


@dataclass
class RowTracks:
    """The time axes of all values of a graph."""

    graph: Graph
    hop: int
    window: int
    """The frames of the window, along the first streamed input."""
    rows: dict[Value, RowTrack] = field(default_factory=dict)
    whole: dict[Value, bool] = field(default_factory=dict)
    """Values that are recomputed in each call → whether they depend on where the window begins."""
    ready: dict[Value, int] = field(default_factory=dict)
    """The first call, from 1 on, in which a value is valid, counted from the reset."""
    streamed_ops: list[StreamedOp] = field(default_factory=list)

    def follow(self) -> None:
        """Visits all ops in order."""
        for op in self.graph.ops:
            self._visit_op(op)

    def _visit_op(self, op: Op) -> None:
        moving = [x for x in op.activations if x in self.rows]
        if isinstance(op, Scan) and moving and _follows_time_order(op, [self.rows[x] for x in moving]):
            self._visit_recurrent_layer(op, moving)
            return
        if isinstance(op, Biquads) and moving == [op.x]:
            self._visit_filter(op)
            return
        if isinstance(op, Slice) and moving and self.rows[op.x].is_behind(op):
            self.whole[op.y], self.ready[op.y] = False, self.ready[op.x]
            self.streamed_ops.append(StreamedOp(op, {}))
            return
        if not moving:
            if any(x in self.whole for x in op.activations):
                self._record_whole_run(op, {}, False)
            else:
                self.streamed_ops.append(StreamedOp(op, {}))
            return
        maps = {x: time_map(op, x, self.rows[x].axis) for x in moving}
        known = {x: c for x, c in maps.items() if isinstance(c, AxisMap)}
        if len(op.results) > 1 or len(known) < len(maps):
            reason = next((c for c in maps.values() if isinstance(c, str)), "it has several results")
            self._visit_whole_window_op(op, moving, reason)
            return
        if len({c.axis for c in known.values()}) > 1:
            raise refusals.MIXED_FRAMES.error(op, "each frame of one operand meets all frames of the other")
        self._visit_row_op(op, known)

    def _visit_recurrent_layer(self, op: Scan, moving: list[Value]) -> None:
        """Visits a recurrent layer. Its carried values are kept from call to call and begin with the signal; those
        that are states of the model stay states."""
        own = {state.before for state in self.graph.states} & {*op.initial}
        operand = next((v for v in op.activations if v not in moving and v not in own), None)
        if operand is not None:
            raise self._changing_operand_error(op, operand)
        step = _common_step(op, {Fraction(self.rows[x].step) for x in moving})
        late = next((x for x in moving if self.rows[x].lag), None)
        if late is not None:
            raise refusals.LATE_BEGIN.error(op, refusals.begins_later(late))
        ready = max(self.ready[x] for x in moving)
        for y in op.stacked:
            self.rows[y], self.ready[y] = RowTrack(0, op.count, step, Fraction(0), op.count), ready
        for y in op.last:
            self.whole[y], self.ready[y] = True, ready
        uses = {x: RowUse(self.rows[x].new) for x in moving}
        self.streamed_ops.append(StreamedOp(op, uses, 0, step))

    def _visit_filter(self, op: Biquads) -> None:
        """Visits a filter, which begins with the signal; its state is one of the model itself."""
        track = self.rows[op.x]
        if track.lag:
            raise refusals.LATE_BEGIN.error(op, refusals.begins_later(op.x))
        behind = op.y.shape[1] - track.size
        self.rows[op.y] = RowTrack(1, track.size, track.step, Fraction(0), track.size, behind)
        self.ready[op.y] = self.ready[op.x]
        self.streamed_ops.append(StreamedOp(op, {op.x: RowUse(track.new)}, 1, track.step))

    def _visit_whole_window_op(self, op: Op, moving: list[Value], reason: str) -> None:
        """Visits an op that needs all rows of the window at once."""
        if not isinstance(op, ENDS_OF_TIME):
            raise refusals.WHOLE_WINDOW.error(op, f"its rows over time: {reason}")
        uses = {x: RowUse(Span(0, self.rows[x].size)) for x in moving}
        self._record_whole_run(op, uses, any(self.rows[x].dirty for x in moving))

    def _visit_row_op(self, op: Op, maps: Mapping[Value, AxisMap]) -> None:
        y, axis = op.results[0], next(iter(maps.values())).axis
        size = y.shape[axis]
        steps = {Fraction(self.rows[x].step * c.unit, c.stride) for x, c in maps.items()}
        if size == 1 or min(steps) >= size:
            self._visit_whole_result_op(op, maps, axis)
            return
        step = _common_step(op, steps)
        self._refuse_changing_operands(op, maps, axis)
        rows = Span(size - step, step)
        lag = size - Fraction(self.window * step, self.hop)
        dirty = 0
        for x, axis_map in maps.items():
            self._refuse_edge_padding(op, x, axis_map, size)
            if axis_map.padding_before > 0 or self.rows[x].dirty:
                dirty = max(dirty, min(axis_map.first_after(self.rows[x].dirty), size))
        self.rows[y] = RowTrack(axis, size, step, lag, dirty)
        level = {x: c.padding_level if c.padding_before > 0 else None for x, c in maps.items()}
        uses = {x: RowUse(c.reach(rows), level[x]) for x, c in maps.items()}
        self.ready[y] = max(1, 1 + math.ceil(-lag / step), *(self.ready[x] for x in maps))
        self.streamed_ops.append(StreamedOp(op, uses, axis, step, True))

    def _visit_whole_result_op(self, op: Op, maps: Mapping[Value, AxisMap], axis: int) -> None:
        """Visits an op whose whole result is computed in each call, from rows inside the window."""
        size = op.results[0].shape[axis]
        rows = {x: c.reach(Span(0, size)) for x, c in maps.items()}
        is_cut = all(r.first >= 0 and r.end <= self.rows[x].size for x, r in rows.items())
        others = [v for v in op.operands if v not in maps and _varies_along_axis(op, v, axis)]
        is_cut = is_cut and not others
        if not is_cut:
            rows = {x: Span(0, self.rows[x].size) for x in maps}
        is_dirty = any(r.first < self.rows[x].dirty for x, r in rows.items())
        self._record_whole_run(
            op, {x: RowUse(r) for x, r in rows.items()}, is_dirty, axis if is_cut else None
        )

    def _record_whole_run(
        self, op: Op, uses: Mapping[Value, RowUse], is_dirty: bool, axis: int | None = None
    ) -> None:
        is_dirty = is_dirty or any(self.whole.get(x, False) for x in op.activations)
        ready = max([self.ready.get(x, 1) for x in op.activations])
        for x, use in uses.items():
            track = self.rows[x]
            before = track.size - track.lag - use.rows.first
            ready = max(ready, math.ceil(before / track.step))
        for y in op.results:
            self.whole[y], self.ready[y] = is_dirty, ready
        rows = op.results[0].shape[axis] if axis is not None else 0
        self.streamed_ops.append(StreamedOp(op, uses, axis or 0, rows, axis is not None))

    def _refuse_changing_operands(self, op: Op, maps: Mapping[Value, AxisMap], axis: int) -> None:
        """Raises if rows are combined with a value that differs between rows or between calls."""
        for operand in op.operands:
            if operand in maps:
                continue
            if not operand.is_constant:
                raise self._changing_operand_error(op, operand)
            if _varies_along_axis(op, operand, axis):
                here = f"constant `{operand.name}` {list(operand.shape)} has other numbers for each row"
                raise refusals.CONSTANT_BY_ROW.error(op, here)

    def _changing_operand_error(self, op: Op, other: Value) -> PillionError:
        """Returns the error for rows that are combined with a value that differs in each call."""
        if other in self.whole:
            here = f"`{other.name}` is made of the whole window, and another in each call"
            return refusals.MEETS_WINDOW.error(op, here)
        source = "a state" if self.graph.states else "an input that is not streamed"
        return refusals.MEETS_OTHER_INPUT.error(op, f"`{other.name}` comes from {source}")

    def _refuse_edge_padding(self, op: Op, x: Value, axis_map: AxisMap, size: int) -> None:
        behind = axis_map.reach(Span(size - 1, 1)).end - self.rows[x].size
        if behind > 0:
            here = f"padding in time: {axis_map.padding_before} rows in front, {behind} behind"
            raise refusals.PADDING_BEHIND.error(op, here)
        if axis_map.padding_before > 0 and axis_map.padding_level is None:
            raise refusals.UNCOUNTED_PADDING.error(op, "padding in front that is not counted")


def time_map(op: Op, x: Value, axis: int) -> AxisMap | str:
    """Returns the access map along the time axis of an operand, or why rows cannot be computed as they come."""
    access = op.access(x)
    axis_map = access[axis] if access else "all of them are read for any of the result"
    return axis_map if isinstance(axis_map, str) else axis_map.not_streamed or axis_map


def _common_step(op: Op, steps: set[Fraction]) -> int:
    """Returns the number of new rows in each call, which all operands share."""
    if len(steps) > 1:
        here = f"in each call {' and '.join(map(str, sorted(steps)))} rows are new"
        raise refusals.ROW_MISMATCH.error(op, here)
    step = steps.pop()
    if step.denominator > 1:
        raise FractionalRow(step.denominator)
    return int(step)


def _follows_time_order(op: Scan, moving: list[RowTrack]) -> bool:
    """Whether a recurrent layer visits rows in the order of time."""
    return not op.reverse and all(track.axis == 0 for track in moving)


def _varies_along_axis(op: Op, operand: Value, axis: int) -> bool:
    """Whether an operand has different numbers for each row along an axis of the result."""
    meets = zip(op.access(operand), operand.shape, strict=False)
    return any(
        isinstance(axis_map, AxisMap) and axis_map.axis == axis and size > 1 for axis_map, size in meets
    )


def find_time_axes(graph: Graph, spec: Stream) -> RowTracks:
    """Finds the time axes of a graph. The hop becomes the least multiple of the requested one in which every value
    gets whole rows."""
    inputs = refusals.find_stream_inputs(graph, spec)
    window = next(iter(inputs.items()))
    frames = window[0].shape[window[1]]
    hop = spec.frames
    while True:
        refusals.require_hop_within_window(graph, spec, hop, frames)
        tracks = RowTracks(graph, hop, frames)
        try:
            for value, axis in inputs.items():
                step = Fraction(hop * value.shape[axis], frames)
                if Fraction(spec.frames * value.shape[axis], frames).denominator > 1:
                    raise refusals.fractional_frames_error(graph, spec, value, axis)
                tracks.rows[value] = RowTrack(axis, value.shape[axis], int(step), Fraction(0))
                tracks.ready[value] = 1
            tracks.follow()
        except FractionalRow as finer:
            hop *= finer.factor
            continue
        return tracks
