# SPDX-License-Identifier: Apache-2.0
"""How a region runs: which op makes which rows when, from which rows in which buffers, and what is kept for later.

`ensure(value, rows)` is all of it: while fewer rows of a value exist than somebody needs, its op makes more, after the rows that these are
made from. Rows that nobody needs any more are dropped; what remains moves to the front of its buffer. Nothing is made twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import or_

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.rows import ROWS, Span, row_bytes
from pillion.ir.types import Value
from pillion.memory.needed import Needed
from pillion.ops import Region, Reshape
from pillion.ops.region import rows_made


@dataclass(frozen=True)
class Firing:
    """One run of an op of the body for some rows of its result."""

    op: int
    """Its number in the body."""
    span: Span
    image: int
    starts: Mapping[Value, int]
    """Operand or result → the byte of its buffer at which the rows begin."""


@dataclass(frozen=True)
class Move:
    """Rows that are kept go to the front of their buffer."""

    value: Value
    source: int
    bytes: int


@dataclass(frozen=True)
class Feed:
    """Rows of an operand that come from outside the arena."""

    value: Value
    rows: int
    start: int | None
    """The byte of its buffer at which they go; None for rows that nobody reads."""


Event = Firing | Move | Feed

ALIGNMENT = 16
"""Buffers begin at multiples of so many bytes."""


def aligned(size: int) -> int:
    """Rounds a size up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Held:
    """A buffer inside a region: how large, and during which events there is something in it."""

    value: Value
    bytes: int
    live: int
    """A bit for each event."""


@dataclass(frozen=True)
class Lag:
    """How a result of a region may lie over an operand that is used up: `bytes` before its beginning, so that what is written never
    reaches what is still read."""

    operand: Value
    result: Value
    bytes: int

    @property
    def size(self) -> int:
        """The bytes that both take together."""
        return max(self.bytes + self.operand.type.size_bytes, self.result.type.size_bytes)


@dataclass(frozen=True)
class Schedule:
    """All that happens in a region, in order, and the buffers that it takes."""

    body: Graph
    events: tuple[Event, ...]
    buffers: tuple[Held, ...]
    storage: Mapping[Value, Value]
    """Value of the body → the value in whose buffer it lies."""
    used_up: Mapping[int, Set[Value]]
    """Number of an op → the operands of which, each time that it runs, all rows in the buffer are read and none is needed later, while
    nothing is in the result's buffer yet: a kernel that can may put the result in their place."""
    fed: Value | None = None
    """The operand whose rows come from outside the arena."""

    @property
    def results(self) -> tuple[Value, ...]:
        """The result of each op of the body."""
        return tuple(op.results[0] for op in self.body.ops)

    @property
    def lags(self) -> tuple[Lag, ...]:
        """Gives for each operand and result of the region how one may lie over the other."""
        border = [v for v in self.body.inputs if v.type.rank > ROWS and v is not self.fed]
        return tuple(
            Lag(x, y, lag_of(self.body, self.events, x, y)) for x in border for y in self.body.outputs
        )

    def firings(self, op: int) -> int:
        """Gives the events in which an op runs: a bit for each."""
        return sum(1 << i for i, e in enumerate(self.events) if isinstance(e, Firing) and e.op == op)

    def in_scratch(self, op: int) -> int:
        """Gives the events during which something is in the scratch of an op: a bit for each. What takes rows a few at a time keeps there
        what it made of them."""
        fired = self.firings(op)
        return (1 << fired.bit_length()) - (fired & -fired) if self.body.ops[op].folded_bytes else fired


def lag_of(body: Graph, events: Sequence[Event], x: Value, y: Value) -> int:
    """Gives the least bytes by which a result must begin before an operand, for what these events write never to reach what they
    read then or later."""
    lag, needed = 0, x.type.size_bytes
    for event in reversed(events):
        if isinstance(event, Firing):
            needed = min(needed, event.starts.get(x, needed))
            if body.ops[event.op].results[0] is y:
                lag = max(lag, event.starts[y] + _written(body.ops[event.op], event.span) - needed)
    return lag


def _written(op: Op, span: Span) -> int:
    """The bytes of a result behind which nothing is written when an op runs for some rows."""
    y = op.results[0]
    if op.folded_bytes:  # all of it is written with the last rows
        return y.type.size_bytes // y.shape[0] if span.end == rows_made(op) else 0
    return span.count * row_bytes(y)


class _Buffer:
    """What there is of one tensor at some moment: rows from `base` to before `made`."""

    def __init__(self, value: Value, whole: bool, taken: int = 0) -> None:
        has_rows = value.type.rank > ROWS and not taken
        self.value, self.whole = value, whole
        self.size = value.shape[ROWS] if has_rows else 1
        self.row_bytes = row_bytes(value) if has_rows else value.type.size_bytes
        self.image_bytes = self.size * self.row_bytes if has_rows and value.shape[0] > 1 else 0
        if taken:  # it is made of so many rows, and has none
            self.size, self.row_bytes, self.image_bytes = taken, 0, value.type.size_bytes // value.shape[0]
        self.users: list[tuple[Op, Value, _Buffer]] = []
        """Who reads it, as which value, and what is made of it."""
        self.base = self.made = self.most = 0
        self.times: list[tuple[int, int]] = []
        self.opened: int | None = None

    def start(self, row: int, image: int) -> int:
        """The byte at which a row of an image begins."""
        return (
            row * self.row_bytes + image * self.image_bytes
            if self.whole
            else (row - self.base) * self.row_bytes
        )

    def close(self, now: int) -> None:
        """Notes that nothing is in the buffer after an event."""
        if self.opened is not None:
            self.times.append((self.opened, now))
            self.opened = None

    @property
    def live(self) -> int:
        """The events during which something is in the buffer: a bit for each."""
        return reduce(or_, ((1 << last + 1) - (1 << first) for first, last in self.times), 0)


class _Run:
    """A region while it runs."""

    def __init__(self, region: Region, needed: Needed | None = None) -> None:
        self.needed = needed or Needed()
        self.body = region.body
        self.storage = _storage(region.body)
        self.events: list[Event] = []
        self.fed = region.fed_value
        border = {v for v in (*region.xs, *region.ys) if v is not self.fed}
        taken = {op.results[0]: rows_made(op) for op in region.body.ops if op.folded_bytes}
        stored = dict.fromkeys(self.storage.values())
        self.buffers = {v: _Buffer(v, v in border, taken.get(v, 0)) for v in stored}
        ops = [(i, op) for i, op in enumerate(self.body.ops) if not is_alias(op)]
        self.grains = {i: 1 if self._shrinks_what_is_fed(op) else region.grain for i, op in ops}
        self.producers = {op.results[0]: i for i, op in ops}
        self.used_up: dict[int, set[Value]] = {i: set(op.activations) for i, op in ops}
        for _, op in ops:
            for x in op.activations:
                self.of(x).users.append((op, x, self.of(op.results[0])))

    def _shrinks_what_is_fed(self, op: Op) -> bool:
        """Whether an op makes of each row that is handed over a smaller one: then there need be but one of the large ones."""
        x, y = self.fed, op.results[0]
        if (
            op.folded_bytes
            or x is None
            or x not in op.activations
            or op.row_unit > 1
            or x.shape[ROWS] != y.shape[ROWS]
        ):
            return False
        return row_bytes(y) < row_bytes(x) and op.rows_of(x, Span(0, 1)) == Span(0, 1)

    def of(self, value: Value) -> _Buffer:
        return self.buffers[self.storage[value]]

    def ensure(self, value: Value, rows: int, image: int) -> None:
        """Makes rows until there are so many."""
        buffer = self.of(value)
        number = self.producers.get(buffer.value)
        if number is None:  # an input of the region
            if buffer.value is self.fed and buffer.made < rows:
                self._feed(buffer, rows)
            return
        op = self.body.ops[number]
        while buffer.made < rows:
            count = min(rows - buffer.made, self.grains[number] or rows)
            count = min(-(-count // op.row_unit) * op.row_unit, buffer.size - buffer.made)
            self._fire(number, op, Span(buffer.made, count), image)

    def _feed(self, buffer: _Buffer, rows: int) -> None:
        """Takes rows from outside until there are so many."""
        self._make_room(buffer)
        at = buffer.start(buffer.made, 0)
        self._add(Feed(buffer.value, rows - buffer.made, at), buffer)
        buffer.made = rows
        buffer.most = max(buffer.most, buffer.made - buffer.base)

    def _fire(self, number: int, op: Op, span: Span, image: int) -> None:
        needs = self.needed.spans(op, span)
        for x, rows in needs.items():
            self.ensure(x, self.of(x).size if rows is None else rows.end, image)
        y = self.of(op.results[0])
        self._make_room(y)
        rank = op.results[0].type.rank
        # What has fewer axes is broadcast: it is the same for all images.
        starts = {
            x: self.of(x).start(rows.first if rows else 0, image if x.type.rank >= rank else 0)
            for x, rows in needs.items()
        }
        starts[op.results[0]] = y.start(span.first, image)
        is_fresh = y.opened is None
        self._add(Firing(number, span, image, starts), y)
        y.made = span.end
        y.most = max(y.most, y.made - y.base)
        now = len(self.events) - 1
        for x in op.activations:
            self._drop(self.of(x), now)
            if not is_fresh or y.whole or self.of(x).whole or self.of(x).opened is not None or starts[x]:
                self.used_up[number].discard(x)
        self._drop(y, now)

    def held(self) -> list[int]:
        """Gives the bytes of all buffers with something in them, for each event."""
        change = [0] * (len(self.events) + 1)
        for buffer in self.buffers.values():
            for first, last in buffer.times:
                size = aligned(buffer.most * buffer.row_bytes)
                change[first] += size
                change[last + 1] -= size
        return list(accumulate(change))

    def _add(self, event: Event, buffer: _Buffer) -> None:
        if buffer.opened is None and not buffer.whole:
            buffer.opened = len(self.events)
        self.events.append(event)

    def _drop(self, buffer: _Buffer, now: int) -> None:
        if not buffer.whole and self._needed(buffer) >= buffer.made:
            buffer.close(now)

    def _needed(self, buffer: _Buffer) -> int:
        """The first row that somebody still reads; behind the last one that was made if nobody does."""
        least = buffer.made
        for op, x, y in buffer.users:
            if y.made < y.size:
                least = min(least, self.needed.first(op, x, y.made))
        return least

    def _make_room(self, buffer: _Buffer) -> None:
        """Drops the rows in front that nobody needs."""
        if buffer.whole:
            return
        needed = self._needed(buffer)
        dead, rest = needed - buffer.base, buffer.made - needed
        if dead and rest:
            self._add(Move(buffer.value, dead * buffer.row_bytes, rest * buffer.row_bytes), buffer)
        buffer.base = needed

    def image(self, image: int, step: int, steps: int | None = None) -> None:
        """Runs the region over one image, or the first steps of it."""
        for buffer in self.buffers.values():
            buffer.base = buffer.made = 0
        driver = self.of(self.body.ops[-1].results[0])
        end = driver.size if steps is None else min(step * steps, driver.size)
        while driver.made < end:
            self.ensure(driver.value, min(driver.made + step, driver.size), image)
            for y in self.body.outputs:
                size = self.of(y).size
                self.ensure(y, size * driver.made // driver.size, image)
        if self.fed is not None and end == driver.size:
            self._skip_the_rest(self.of(self.fed))
        for buffer in self.buffers.values():
            buffer.close(len(self.events) - 1)

    def _skip_the_rest(self, fed: _Buffer) -> None:
        """The rows of an image that nobody reads are handed over, too."""
        if fed.made < fed.size:
            self.events.append(Feed(fed.value, fed.size - fed.made, None))


@dataclass(frozen=True)
class Preview:
    """What the first steps of a region show of all of it."""

    held_bytes: int
    """The most bytes that its inner buffers hold at once."""
    firings: tuple[float, ...]
    """About how often each op runs for one image."""
    firing_rows: tuple[int, ...]
    """The rows that each op makes at once after the first steps."""
    moved_bytes: float
    """About how many bytes are moved for one image."""
    saved_bytes: int
    """About how many bytes are saved where the operand, if it is the only one, is used up and a result lies over it."""


def preview(
    region: Region, extra_bytes: Callable[[int, int], int], needed: Needed, steps: int = 3
) -> Preview:
    """Runs the first steps of a region. `extra_bytes` says what an op needs, by its number and the rows that it makes, while it runs."""
    run = _Run(region, needed)
    run.image(0, region.step, steps)
    ops = len(region.body.ops)
    counts, rows = [0] * ops, [0] * ops
    moved: dict[Value, int] = {}
    live: dict[int, int] = {}
    for i, event in enumerate(run.events):
        if isinstance(event, Move):
            moved[event.value] = moved.get(event.value, 0) + event.bytes
        elif isinstance(event, Feed):
            moved[event.value] = moved.get(event.value, 0) + event.rows * run.of(event.value).row_bytes
        else:
            counts[event.op] += 1
            rows[event.op] = event.span.count
            live[i] = extra_bytes(event.op, event.span.count)
    folded = sum(aligned(op.folded_bytes) for op in region.body.ops)
    peak = folded + max(held + live.get(i, 0) for i, held in enumerate(run.held()))
    made = [run.buffers[op.results[0]] if not is_alias(op) else None for op in region.body.ops]
    firings = tuple(n * b.size / max(b.made, 1) if b else 0.0 for n, b in zip(counts, made, strict=True))
    moves = sum(n * run.of(v).size / max(run.of(v).made, 1) for v, n in moved.items())
    return Preview(peak, firings, tuple(rows), moves, _saved(region, run.events))


def _saved(region: Region, events: Sequence[Event]) -> int:
    """The bytes of a region's operand over which its largest result may lie. What a few events show holds to the end if rows are
    used up as fast as they are made; if not, the result goes far beyond the operand."""
    if len(region.xs) != 1 or region.fed or region.xs[0].type.rank <= ROWS:
        return 0
    x, y = region.xs[0], max(region.ys, key=lambda v: v.type.size_bytes)
    lag = max(lag_of(region.body, events, x, y), 0)
    together = max(x.type.size_bytes + lag, y.type.size_bytes + lag)
    return max(x.type.size_bytes + y.type.size_bytes - together, 0)


def is_alias(op: Op) -> bool:
    """Whether an op has nothing to do at run time: its result is another view of its operand's bytes."""
    return isinstance(op, Reshape)


def _storage(body: Graph) -> dict[Value, Value]:
    """The buffer of each value; a value that is another shape of one shares its buffer."""
    storage = {v: v for v in body.inputs}
    for op in body.ops:
        y = op.results[0]
        storage[y] = storage[op.operands[0]] if is_alias(op) else y
    return storage


def schedule(region: Region) -> Schedule:
    """Gives all that happens when a region runs."""
    run = _Run(region)
    for image in range(region.ys[0].shape[0]):
        run.image(image, region.step)
    held = tuple(Held(b.value, b.most * b.row_bytes, b.live) for b in run.buffers.values() if b.times)
    return Schedule(region.body, tuple(run.events), held, run.storage, run.used_up, run.fed)
