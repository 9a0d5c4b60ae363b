# SPDX-License-Identifier: Apache-2.0
"""From a graph of a whole window to one of a hop: each op makes the rows that are new, and rows that are still needed are states.

Rows that an op needs and that are not new are put before the new ones (`joined`); the last of both together are kept for the next
call. Where the memory planner lets the new rows be made right behind the kept ones, nothing is copied but what is kept."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.errors import PillionError
from pillion.ir.along import Along
from pillion.ir.graph import Graph, Names
from pillion.ir.op import Op
from pillion.ir.rows import Span
from pillion.ir.state import State
from pillion.ir.streaming import Answer, Fed, Meaning, Streaming
from pillion.ir.types import Array, TensorType, Value
from pillion.ir.verify import verify
from pillion.ops import Concat, Repeat, Slice
from pillion.streams import refusals
from pillion.streams.pixels import gathered_pixels
from pillion.streams.tracks import Firing, Track, Tracks, Use, follow
from pillion.streams.wish import StreamWish


@dataclass(frozen=True)
class _Kept:
    """Rows of a value that are kept, with the new ones behind them."""

    count: int
    joined: Value


class Hop:
    """The graph of a hop while it is made."""

    def __init__(self, tracks: Tracks, since_reset: bool) -> None:
        self.tracks, self.graph, self.since_reset = tracks, tracks.graph, since_reset
        self.names = Names(self.graph.values)
        self.now: dict[Value, Value] = {v: self._new_rows(v) for v in self.graph.inputs}
        self.ops: list[Op] = []
        self.ends: list[Op] = []
        self.states: list[State] = []
        self.counts = _counts(tracks)
        self.kept: dict[tuple[Value, float | None], _Kept] = {}
        self.past: dict[Value, Array] = {v: _no_rows(v, t) for v, t in tracks.rows.items() if v in self.now}
        """Of values whose first new row is not the first of the signal: the rows before, made of padding."""

    def made(self) -> Graph:
        """Makes the graph."""
        for firing in self.tracks.firings:
            self._fire(firing)
        outputs = tuple(self.now.get(v, v) for v in self.graph.outputs)
        return self.graph.replace(
            inputs=tuple(self.now[v] for v in self.graph.inputs),
            ops=(*self.ops, *self.ends),
            outputs=outputs,
            states=tuple(self.states),
        )

    def _fire(self, firing: Firing) -> None:
        op = firing.op
        if isinstance(op, Repeat) and firing.uses:
            self._repeat(op, firing)
            return
        if self.since_reset:
            self._remember(firing)
        parts = {x: self._part(op, x, use) for x, use in firing.uses.items()}
        parts |= {x: self.now[x] for x in op.activations if x not in parts}
        results = {y: self._new_rows(y) for y in op.results}
        changes: dict[str, Any] = dict(op.all_inside(firing.axis, firing.rows)) if firing.is_cut else {}
        made = dataclasses.replace(op.substitute({**parts, **results}), **changes)
        y = op.results[0]
        if made.is_idle and made.activations[0].type == results[y].type and not self.graph.is_output(y):
            self.now[y] = made.activations[0]
        else:
            self.ops.append(made)
            self.now |= results

    def _repeat(self, op: Repeat, firing: Firing) -> None:
        """What goes from row to row goes on where the last call has stopped."""
        parts = {x: self._part(op, x, use) for x, use in firing.uses.items()}
        before = {v: Value(self.names.fresh(f"{v.name}_carried"), v.type) for v in op.initial}
        results = {y: self._new_rows(y) for y in op.stacked}
        changes: dict[str, Any] = {"count": firing.rows}
        self.ops.append(dataclasses.replace(op.substitute(parts | before | results), **changes))
        self.now |= results
        for first, last in zip(op.initial, op.last, strict=True):
            self.states.append(State(before[first].name, before[first], last, first.constant))
        self.past.update((y, _no_rows(y, self.tracks.rows[y])) for y in op.stacked)

    def _new_rows(self, value: Value) -> Value:
        """What there is of a value in each call: its new rows, or all of it."""
        track = self.tracks.rows.get(value)
        return value if track is None else _sized(value.name, value, track.axis, track.step)

    def _part(self, op: Op, x: Value, use: Use) -> Value:
        """The rows of an operand that an op needs: new ones, with kept ones before them where it needs those."""
        track, rows = self.tracks.rows[x], use.rows
        group = self.counts[x]
        level = use.level if use.level in group else next(iter(group), None)
        first, held = track.new.first, self.now[x]
        if rows.first < first:
            kept = self._keep(op, x, level, group[level])
            first, held = first - kept.count, kept.joined
        if (rows.first, rows.end) == (first, track.size):
            return held
        y = _sized(self.names.fresh(f"{x.name}_rows"), x, track.axis, rows.count)
        begin = tuple(rows.first - first if a == track.axis else 0 for a in range(x.type.rank))
        self.ops.append(Slice(x=held, y=y, begin=begin, step=(1,) * x.type.rank, source=op.source))
        return y

    def _keep(self, op: Op, x: Value, level: float | None, count: int) -> _Kept:
        if (x, level) in self.kept:
            return self.kept[x, level]
        track = self.tracks.rows[x]
        name = self.names.fresh(f"{x.name}_kept")
        before = _sized(name, x, track.axis, count)
        joined = _sized(self.names.fresh(f"{x.name}_joined"), x, track.axis, count + track.step)
        after = _sized(self.names.fresh(f"{x.name}_kept_next"), x, track.axis, count)
        self.ops.append(Concat(xs=(before, self.now[x]), y=joined, axis=track.axis, source=op.source))
        begin = tuple(track.step if a == track.axis else 0 for a in range(x.type.rank))
        self.ends.append(Slice(x=joined, y=after, begin=begin, step=(1,) * x.type.rank, source=op.source))
        self.states.append(State(name, before, after, self._initial(op, x, level, count)))
        return self.kept.setdefault((x, level), _Kept(count, joined))

    def _initial(self, op: Op, x: Value, level: float | None, count: int) -> Array:
        """What is kept after a reset: padding, and rows made of padding; or anything at all, where nobody looks at it."""
        track = self.tracks.rows[x]
        empty = x.zero_point if x.is_quantized else 0
        if not self.since_reset or (level is None and x not in self.past):
            return _full(x, track, count, empty)
        if level is not None and track.lag < 0:
            raise refusals.mixed_padding(op, x)
        outside = empty if level is None else level
        return _taken(x, track, self.past.get(x), Span(int(track.lag) - count, count), outside)

    def _remember(self, firing: Firing) -> None:
        """Computes the rows of a result that lie before the first new one of the first call, where there are any."""
        y = firing.op.results[0]
        track = self.tracks.rows.get(y)
        if track is None:
            return
        if track.lag.denominator > 1:
            raise refusals.mixed_padding(firing.op, y)
        if track.lag <= 0:
            self.past[y] = _no_rows(y, track)
            return
        before = Span(0, int(track.lag))
        arrays: dict[Value, Array] = {}
        for x in firing.uses:
            along = firing.op.along(x, self.tracks.rows[x].axis)
            assert isinstance(along, Along)
            if self.tracks.rows[x].lag < 0:
                raise refusals.mixed_padding(firing.op, x)
            outside = along.outside if along.outside is not None else 0
            arrays[x] = _taken(x, self.tracks.rows[x], self.past[x], along.rows_for(before), outside)
        values = {x: Value(x.name, TensorType(a.shape, x.dtype, x.type.quant)) for x, a in arrays.items()}
        result = {y: _sized(y.name, y, track.axis, before.count)}
        changes: dict[str, Any] = dict(firing.op.all_inside(track.axis, before.count))
        op = dataclasses.replace(firing.op.substitute({**values, **result}), **changes)
        operands = [v.constant if v.is_constant else arrays[v] for v in firing.op.operands]
        self.past[y] = np.asarray(op.reference(self.graph.arithmetic, *operands))


def _counts(tracks: Tracks) -> dict[Value, dict[float | None, int]]:
    """How many rows of each value are kept, for each level that stands for the rows before the first. Who does not look at those joins the
    others."""
    counts: dict[Value, dict[float | None, int]] = {}
    for firing in tracks.firings:
        for x, use in firing.uses.items():
            missing = tracks.rows[x].new.first - use.rows.first
            group = counts.setdefault(x, {})
            if missing > 0:
                group[use.level] = max(group.get(use.level, 0), missing)
    for group in counts.values():
        if None in group and len(group) > 1:
            other = next(level for level in group if level is not None)
            group[other] = max(group[other], group.pop(None))
    return counts


def _sized(name: str, value: Value, axis: int, count: int) -> Value:
    shape = tuple(count if a == axis else d for a, d in enumerate(value.shape))
    return Value(name, TensorType(shape, value.dtype, value.type.quant))


def _full(value: Value, track: Track, count: int, level: float) -> Array:
    shape = tuple(count if a == track.axis else d for a, d in enumerate(value.shape))
    return np.full(shape, level, value.dtype.numpy)


def _no_rows(value: Value, track: Track) -> Array:
    return _full(value, track, 0, 0)


def _taken(value: Value, track: Track, past: Array | None, rows: Span, level: float) -> Array:
    """Some rows before the first new one: `level` for those before the signal, then what was made of such rows."""
    held = past if past is not None else _no_rows(value, track)
    outside = min(max(-rows.first, 0), rows.count)
    inside = np.take(held, range(max(rows.first, 0), rows.end), axis=track.axis)
    return np.concatenate([_full(value, track, outside, level), inside], axis=track.axis)


def _answers_to_the_signal(tracks: Tracks) -> bool:
    """Says whether an output depends on rows that have padding before them: it then speaks of the signal since the reset."""
    outputs = tracks.graph.outputs
    rows = [tracks.rows[v] for v in outputs if v in tracks.rows]
    return any(t.dirty > t.new.first for t in rows) or any(tracks.whole.get(v, False) for v in outputs)


def _made(tracks: Tracks) -> tuple[Graph, Meaning]:
    """The graph of a hop, whose states begin as the padding where there is some: then it answers to the signal from its beginning."""
    if _answers_to_the_signal(tracks):
        return Hop(tracks, True).made(), Meaning.SIGNAL
    has_front = any(use.level is not None for firing in tracks.firings for use in firing.uses.values())
    if has_front:
        with contextlib.suppress(PillionError):  # padding of rows that begin later: no window sees it
            return Hop(tracks, True).made(), Meaning.BOTH
    return Hop(tracks, False).made(), Meaning.WINDOW


def _answers(tracks: Tracks, meaning: Meaning) -> Iterator[Answer]:
    full = -(-tracks.window // tracks.hop)
    for value in tracks.graph.outputs:
        first = full if meaning is Meaning.WINDOW else tracks.ready.get(value, 1)
        track = tracks.rows.get(value)
        yield Answer(value.name, first, track.step, track.axis) if track else Answer(value.name, first)


def streamed(graph: Graph, wish: StreamWish) -> Graph:
    """Gives the graph of one hop, which says of itself what it takes and answers."""
    tracks = follow(graph, wish)
    hop, meaning = _made(tracks)
    fed = tuple(
        Fed(v.name, t.axis, t.size, t.step)
        for v, t in ((v, tracks.rows[v]) for v in graph.inputs if v in tracks.rows)
    )
    streaming = Streaming(fed, tuple(_answers(tracks, meaning)), meaning, tracks.hop // wish.hop)
    hop = gathered_pixels(verify(hop, "streamed"))
    return verify(hop.replace(streaming=streaming), "gathered_pixels")
