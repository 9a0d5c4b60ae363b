# SPDX-License-Identifier: Apache-2.0
"""Rewrites a graph of a whole window into one of a hop: each op computes its new rows, and rows that are still
needed become states.

Old rows are concatenated with the new ones, and the last of both are kept for the next call. Where the memory
planner places new rows right behind the kept ones, only the kept rows are copied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pillion.compile_options import Stream
from pillion.errors import PillionError
from pillion.ir.access import AxisMap, Span
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.stream_io import FedInput, Streaming, StreamOutput, StreamOutputMeaning
from pillion.ir.types import Array, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Concat, Scan, Slice
from pillion.streams import refusals
from pillion.streams.pixels import gathered_pixels
from pillion.streams.time_axes import RowTrack, RowTracks, RowUse, StreamedOp, find_time_axes


@dataclass(frozen=True)
class _KeptRows:
    """Rows of a value that are kept, concatenated with the new ones."""

    count: int
    joined: Value


class HopGraphBuilder:
    """The graph of a hop under construction."""

    def __init__(self, tracks: RowTracks, since_reset: bool) -> None:
        self.tracks, self.graph, self.since_reset = tracks, tracks.graph, since_reset
        self.names = UniqueNames(self.graph.values)
        self.now: dict[Value, Value] = {v: self._new_rows(v) for v in self.graph.sources}
        self.ops: list[Op] = []
        self.final_ops: list[Op] = []
        self.states: list[State] = []
        self.counts = _kept_row_counts(tracks)
        self.kept: dict[tuple[Value, float | None], _KeptRows] = {}
        self.past: dict[Value, Array] = {
            v: _empty_rows(v, t) for v, t in tracks.rows.items() if v in self.now
        }
        """For values whose first new row is not the first of the signal: the earlier rows, computed from padding."""

    def build(self) -> Graph:
        """Builds the graph."""
        for streamed in self.tracks.streamed_ops:
            self._add_op(streamed)
        outputs = tuple(self.now.get(v, v) for v in self.graph.outputs)
        return self.graph.replace(
            inputs=tuple(self.now[v] for v in self.graph.inputs),
            ops=(*self.ops, *self.final_ops),
            outputs=outputs,
            states=(*self._own_states(), *self.states),
        )

    def _own_states(self) -> Iterator[State]:
        """Yields the states of the model itself, which change once in each call."""
        for state in self.graph.states:
            if state.after in self.tracks.rows:
                op = self.graph.producers.get(state.after) or self.graph.users[state.after][0]
                raise refusals.STATE_OF_ROWS.error(op, f"state `{state.name}` is `{state.after.name}`")
            yield state.substitute(self.now)

    def _add_op(self, streamed: StreamedOp) -> None:
        op = streamed.op
        if isinstance(op, Scan) and streamed.uses:
            self._add_recurrent_layer(op, streamed)
            return
        if self.since_reset:
            self._compute_past_rows(streamed)
        parts = {x: self._operand_rows(op, x, use) for x, use in streamed.uses.items()}
        parts |= {x: self.now[x] for x in op.activations if x not in parts}
        results = {y: self._new_rows(y) for y in op.results}
        changes = op.tile(streamed.axis, Span(0, streamed.rows), (0, 0)) if streamed.is_cut else {}
        if isinstance(op, Slice) and op.x in self.tracks.rows and self.tracks.rows[op.x].is_behind(op):
            track = self.tracks.rows[op.x]
            begin = op.begin[track.axis] - track.size + track.step
            changes = {"begin": (*op.begin[: track.axis], begin, *op.begin[track.axis + 1 :])}
        new_op = op.substitute({**parts, **results}, **changes)
        y = op.results[0]
        if (
            new_op.is_identity
            and new_op.activations[0].type == results[y].type
            and not self.graph.is_output(y)
        ):
            self.now[y] = new_op.activations[0]
        else:
            self.ops.append(new_op)
            self.now |= results

    def _add_recurrent_layer(self, op: Scan, streamed: StreamedOp) -> None:
        """Adds a recurrent layer that continues where the last call stopped."""
        parts = {x: self._operand_rows(op, x, use) for x, use in streamed.uses.items()}
        own = {state.before for state in self.graph.states}
        before = {v: Value(self.names.fresh(f"{v.name}_carried"), v.type) for v in op.initial if v not in own}
        results = {y: self._new_rows(y) for y in op.stacked}
        self.ops.append(op.substitute(parts | before | results, count=streamed.rows))
        self.now |= results
        for first, last in zip(op.initial, op.last, strict=True):
            if first in before:
                self.states.append(State(before[first].name, before[first], last, first.constant))
        self.past.update((y, _empty_rows(y, self.tracks.rows[y])) for y in op.stacked)

    def _new_rows(self, value: Value) -> Value:
        """Returns the new rows of a value in each call, or all of it."""
        track = self.tracks.rows.get(value)
        if track is None:
            return value
        return _value_with_rows(value.name, value, track.axis, track.step + track.behind)

    def _operand_rows(self, op: Op, x: Value, use: RowUse) -> Value:
        """Returns the rows of an operand that an op needs: new ones, with kept ones in front if needed."""
        track, rows = self.tracks.rows[x], use.rows
        group = self.counts[x]
        level = use.level if use.level in group else next(iter(group), None)
        first, source = track.new.first, self.now[x]
        if rows.first < first:
            stored = self._keep_rows(op, x, level, group[level])
            first, source = first - stored.count, stored.joined
        if (rows.first, rows.end) == (first, track.size):
            return source
        y = _value_with_rows(self.names.fresh(f"{x.name}_rows"), x, track.axis, rows.count)
        begin = tuple(rows.first - first if a == track.axis else 0 for a in range(x.type.rank))
        self.ops.append(Slice(x=source, y=y, begin=begin, step=(1,) * x.type.rank, source=op.source))
        return y

    def _keep_rows(self, op: Op, x: Value, level: float | None, count: int) -> _KeptRows:
        if (x, level) in self.kept:
            return self.kept[x, level]
        track = self.tracks.rows[x]
        name = self.names.fresh(f"{x.name}_kept")
        before = _value_with_rows(name, x, track.axis, count)
        joined = _value_with_rows(self.names.fresh(f"{x.name}_joined"), x, track.axis, count + track.step)
        after = _value_with_rows(self.names.fresh(f"{x.name}_kept_next"), x, track.axis, count)
        self.ops.append(Concat(xs=(before, self.now[x]), y=joined, axis=track.axis, source=op.source))
        begin = tuple(track.step if a == track.axis else 0 for a in range(x.type.rank))
        self.final_ops.append(
            Slice(x=joined, y=after, begin=begin, step=(1,) * x.type.rank, source=op.source)
        )
        self.states.append(State(name, before, after, self._initial_kept_rows(op, x, level, count)))
        return self.kept.setdefault((x, level), _KeptRows(count, joined))

    def _initial_kept_rows(self, op: Op, x: Value, level: float | None, count: int) -> Array:
        """Returns the initial kept rows: padding and rows computed from padding, or anything if no op reads them."""
        track = self.tracks.rows[x]
        empty = x.zero_point if x.is_quantized else 0
        if not self.since_reset or (level is None and x not in self.past):
            return _filled_rows(x, track, count, empty)
        if level is not None and track.lag < 0:
            raise refusals.MIXED_PADDING.error(op, refusals.begins_later(x))
        outside = empty if level is None else level
        return _past_rows(x, track, self.past.get(x), Span(int(track.lag) - count, count), outside)

    def _compute_past_rows(self, streamed: StreamedOp) -> None:
        """Computes the rows of a result before the first new row of the first call."""
        y = streamed.op.results[0]
        track = self.tracks.rows.get(y)
        if track is None:
            return
        if track.lag.denominator > 1:
            raise refusals.MIXED_PADDING.error(streamed.op, refusals.begins_later(y))
        if track.lag <= 0:
            self.past[y] = _empty_rows(y, track)
            return
        before = Span(0, int(track.lag))
        arrays: dict[Value, Array] = {}
        for x in streamed.uses:
            axis_map = streamed.op.access(x)[self.tracks.rows[x].axis]
            assert isinstance(axis_map, AxisMap)
            if self.tracks.rows[x].lag < 0:
                raise refusals.MIXED_PADDING.error(streamed.op, refusals.begins_later(x))
            outside = axis_map.padding_level if axis_map.padding_level is not None else 0
            arrays[x] = _past_rows(x, self.tracks.rows[x], self.past[x], axis_map.reach(before), outside)
        values = {x: x.like(x.name, shape=a.shape) for x, a in arrays.items()}
        result = {y: _value_with_rows(y.name, y, track.axis, before.count)}
        changes = streamed.op.tile(track.axis, Span(0, before.count), (0, 0))
        op = streamed.op.substitute({**values, **result}, **changes)
        operands = streamed.op.operand_arrays(arrays)
        self.past[y] = np.asarray(op.reference(self.graph.arithmetic, *operands))


def _kept_row_counts(tracks: RowTracks) -> dict[Value, dict[float | None, int]]:
    """Returns how many rows of each value are kept, by the level of the rows before the first. Readers that ignore
    the level join any other."""
    counts: dict[Value, dict[float | None, int]] = {}
    for streamed in tracks.streamed_ops:
        for x, use in streamed.uses.items():
            missing = tracks.rows[x].new.first - use.rows.first
            group = counts.setdefault(x, {})
            if missing > 0:
                group[use.level] = max(group.get(use.level, 0), missing)
    for group in counts.values():
        if None in group and len(group) > 1:
            known_level = next(level for level in group if level is not None)
            group[known_level] = max(group[known_level], group.pop(None))
    return counts


def _value_with_rows(name: str, value: Value, axis: int, count: int) -> Value:
    return value.like(name, shape=tuple(count if a == axis else d for a, d in enumerate(value.shape)))


def _filled_rows(value: Value, track: RowTrack, count: int, level: float) -> Array:
    shape = tuple(count if a == track.axis else d for a, d in enumerate(value.shape))
    return np.full(shape, level, value.dtype.numpy)


def _empty_rows(value: Value, track: RowTrack) -> Array:
    return _filled_rows(value, track, 0, 0)


def _past_rows(value: Value, track: RowTrack, past: Array | None, rows: Span, level: float) -> Array:
    """Returns rows before the first new one: `level` before the signal, then rows computed from padding."""
    stored = past if past is not None else _empty_rows(value, track)
    outside = min(max(-rows.first, 0), rows.count)
    inside = np.take(stored, range(max(rows.first, 0), rows.end), axis=track.axis)
    return np.concatenate([_filled_rows(value, track, outside, level), inside], axis=track.axis)


def _outputs_describe_signal(tracks: RowTracks) -> bool:
    """Whether an output depends on rows with padding before them; it then describes the signal since the reset."""
    outputs = tracks.graph.outputs
    rows = [tracks.rows[v] for v in outputs if v in tracks.rows]
    return any(t.dirty > t.new.first for t in rows) or any(tracks.whole.get(v, False) for v in outputs)


def _build_hop(tracks: RowTracks) -> tuple[Graph, StreamOutputMeaning]:
    """Returns the graph of a hop and the meaning of its outputs. If there is padding, its states begin as padding."""
    if _outputs_describe_signal(tracks):
        return HopGraphBuilder(tracks, True).build(), StreamOutputMeaning.SIGNAL
    has_front = any(
        use.level is not None for streamed in tracks.streamed_ops for use in streamed.uses.values()
    )
    if has_front:
        with contextlib.suppress(PillionError):  # padding of rows that begin later: no window sees it
            return HopGraphBuilder(tracks, True).build(), StreamOutputMeaning.BOTH
    return HopGraphBuilder(tracks, False).build(), StreamOutputMeaning.WINDOW


def _stream_outputs(tracks: RowTracks, meaning: StreamOutputMeaning) -> Iterator[StreamOutput]:
    full = -(-tracks.window // tracks.hop)
    for value in tracks.graph.outputs:
        first = full if meaning is StreamOutputMeaning.WINDOW else tracks.ready.get(value, 1)
        track = tracks.rows.get(value)
        yield (
            StreamOutput(value.name, first, track.step, track.axis)
            if track
            else StreamOutput(value.name, first)
        )


def to_stream_graph(graph: Graph, spec: Stream) -> Graph:
    """Returns the graph of one hop, with the description of its inputs and outputs."""
    tracks = find_time_axes(graph, spec)
    hop, meaning = _build_hop(tracks)
    fed = tuple(
        FedInput(v.name, t.axis, t.size, t.step)
        for v, t in ((v, tracks.rows[v]) for v in graph.inputs if v in tracks.rows)
    )
    streaming = Streaming(fed, tuple(_stream_outputs(tracks, meaning)), meaning, tracks.hop // spec.frames)
    hop = gathered_pixels(verify_graph(hop, "streamed"))
    return verify_graph(hop.replace(streaming=streaming), "gathered_pixels")
