# SPDX-License-Identifier: Apache-2.0
"""Simulates a region: which op computes which rows when, from which rows in which buffers, and which rows are
kept.

`ensure(value, rows)` is the core: while fewer rows of a value exist than are needed, its op computes more,
after the rows that these read. Rows that no op needs any more are dropped; the others move to the front of
their buffer. Nothing is computed twice."""

from __future__ import annotations

from pillion.ir.access import ROWS, Span, row_bytes
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.byte_liveness import Change
from pillion.memory.demand import RowDemand
from pillion.memory.events import Event, InnerOpRun, RowFeed, RowMove, is_alias, storage_roots
from pillion.ops import Region
from pillion.ops.region import rows_made


class RowBuffer:
    """The rows of one tensor that exist at some moment: from `base` to before `made`."""

    def __init__(self, value: Value, whole: bool, taken: int = 0) -> None:
        has_rows = value.type.rank > ROWS and not taken
        self.value, self.whole = value, whole
        self.size = value.shape[ROWS] if has_rows else 1
        self.row_bytes = row_bytes(value) if has_rows else value.type.size_bytes
        self.image_bytes = self.size * self.row_bytes if has_rows and value.shape[0] > 1 else 0
        if taken:  # it is made of so many rows, and has none
            self.size, self.row_bytes, self.image_bytes = taken, 0, value.type.size_bytes // value.shape[0]
        self.users: list[tuple[Op, Value, RowBuffer]] = []
        """The readers: the op, the operand, and the buffer of its result."""
        self.base = self.made = self.most = 0
        self.changes: list[Change] = []
        """The changes of the live bytes; empty for whole buffers."""
        self.is_open = False

    def start(self, row: int, image: int) -> int:
        """Returns the byte where a row of an image begins."""
        return (
            row * self.row_bytes + image * self.image_bytes
            if self.whole
            else (row - self.base) * self.row_bytes
        )

    def note(self, event: int, needed: int) -> None:
        """Records that from an event on the rows from `needed` to before `made` are live."""
        if self.whole:
            return
        size, changes = self.row_bytes, self.changes
        change = event, (needed - self.base) * size, (self.made - self.base) * size
        if changes and changes[-1][0] == event:
            changes[-1] = change
        else:
            changes.append(change)

    def close(self, now: int) -> None:
        """Records that nothing is live after an event."""
        if self.is_open:
            self.note(now + 1, self.made)
            self.is_open = False


class RegionSimulation:
    """The simulation of a region."""

    def __init__(self, region: Region, needed: RowDemand | None = None) -> None:
        self.needed = needed or RowDemand()
        self.body = region.body
        self.storage = storage_roots(region.body)
        self.events: list[Event] = []
        self.step_begins: list[int] = []
        """The numbers of the events that begin steps."""
        self.fed = region.fed_value
        border = {v for v in (*region.xs, *region.ys) if v is not self.fed}
        taken = {op.results[0]: rows_made(op) for op in region.body.ops if op.folded_bytes}
        stored = dict.fromkeys(self.storage.values())
        self.buffers = {v: RowBuffer(v, v in border, taken.get(v, 0)) for v in stored}
        self._lies_in = {v: self.buffers[home] for v, home in self.storage.items()}
        ops = [(i, op) for i, op in enumerate(self.body.ops) if not is_alias(op)]
        self.grains = {i: 1 if self._shrinks_what_is_fed(op) else region.grain for i, op in ops}
        self.units = region.units or (1,) * len(region.body.ops)
        self.producers = {op.results[0]: i for i, op in ops}
        self.used_up: dict[int, set[Value]] = {i: set(op.activations) for i, op in ops}
        for _, op in ops:
            for x in op.activations:
                self.buffer_of(x).users.append((op, x, self.buffer_of(op.results[0])))

    def _shrinks_what_is_fed(self, op: Op) -> bool:
        """Whether an op turns each delivered row into a smaller one; then only one large row need exist."""
        x, y = self.fed, op.results[0]
        if (
            op.folded_bytes
            or x is None
            or x not in op.activations
            or op.row_unit > 1
            or x.shape[ROWS] != y.shape[ROWS]
        ):
            return False
        return row_bytes(y) < row_bytes(x) and op.input_rows(x, Span(0, 1)) == Span(0, 1)

    def buffer_of(self, value: Value) -> RowBuffer:
        """Returns the buffer that holds a value."""
        return self._lies_in[value]

    def ensure_rows(self, value: Value, rows: int, image: int) -> None:
        """Computes rows of a value until it has `rows` rows."""
        buffer = self.buffer_of(value)
        number = self.producers.get(buffer.value)
        if number is None:  # an input of the region
            if buffer.value is self.fed and buffer.made < rows:
                self._feed_rows(buffer, rows)
            return
        op = self.body.ops[number]
        while buffer.made < rows:
            count = min(rows - buffer.made, self.grains[number] or rows)
            unit = max(op.row_unit, self.units[number])
            count = min(-(-count // unit) * unit, buffer.size - buffer.made)
            self._run_op(number, op, Span(buffer.made, count), image)

    def _feed_rows(self, buffer: RowBuffer, rows: int) -> None:
        """Takes rows from outside until the value has `rows` rows."""
        self._drop_unneeded_rows(buffer)
        at = buffer.start(buffer.made, 0)
        self._add_event(RowFeed(buffer.value, rows - buffer.made, at), buffer, rows)

    def _run_op(self, number: int, op: Op, span: Span, image: int) -> None:
        needs, lies_in, result = self.needed.spans(op, span), self._lies_in, op.results[0]
        for x, rows in needs.items():
            end = lies_in[x].size if rows is None else rows.end
            if lies_in[x].made < end:
                self.ensure_rows(x, end, image)
        y = lies_in[result]
        self._drop_unneeded_rows(y)
        # What has fewer axes is broadcast: it is the same for all images.
        starts = {
            x: lies_in[x].start(
                rows.first if rows else 0, image and image * (x.type.rank >= result.type.rank)
            )
            for x, rows in needs.items()
        }
        starts[result] = y.start(span.first, image)
        is_fresh = not y.is_open and not y.whole
        self._add_event(InnerOpRun(number, span, image, starts), y, span.end)
        now, used_up = len(self.events) - 1, self.used_up[number]
        for x in needs:
            buffer = lies_in[x]
            self._record_needed_rows(buffer, now)
            if not is_fresh or buffer.whole or buffer.is_open or starts[x]:
                used_up.discard(x)
        self._record_needed_rows(y, now)

    def _add_event(self, event: InnerOpRun | RowFeed, buffer: RowBuffer, row_count: int) -> None:
        """Adds an event after which `made` rows exist in a buffer."""
        buffer.made = row_count
        buffer.most = max(buffer.most, row_count - buffer.base)
        buffer.is_open = not buffer.whole
        buffer.note(len(self.events), buffer.base)
        self.events.append(event)

    def _record_needed_rows(self, buffer: RowBuffer, now: int) -> None:
        """Records which rows of a buffer are still needed after an event."""
        if buffer.whole:
            return
        needed = self._first_needed_row(buffer)
        if needed >= buffer.made:
            buffer.close(now)
        else:
            buffer.note(now + 1, needed)

    def _first_needed_row(self, buffer: RowBuffer) -> int:
        """Returns the first row that is still needed; the one behind the last if none is."""
        least, first = buffer.made, self.needed.first_row
        for op, x, y in buffer.users:
            if y.made < y.size:
                needed = first(op, x, y.made)
                if needed < least:
                    least = needed
        return least

    def _drop_unneeded_rows(self, buffer: RowBuffer) -> None:
        """Drops the leading rows that are no longer needed."""
        if buffer.whole:
            return
        needed = self._first_needed_row(buffer)
        dead, rest = needed - buffer.base, buffer.made - needed
        if dead and rest:
            buffer.note(len(self.events), buffer.base)
            self.events.append(RowMove(buffer.value, dead * buffer.row_bytes, rest * buffer.row_bytes))
        buffer.base = needed

    def image(self, image: int, step: int, steps: int | None = None) -> None:
        """Runs the region over one image, or its first steps."""
        for buffer in self.buffers.values():
            buffer.base = buffer.made = 0
        driver = self.buffer_of(self.body.ops[-1].results[0])
        end = driver.size if steps is None else min(step * steps, driver.size)
        while driver.made < end:
            self.step_begins.append(len(self.events))
            self.ensure_rows(driver.value, min(driver.made + step, driver.size), image)
            for y in self.body.outputs:
                size = self.buffer_of(y).size
                self.ensure_rows(y, size * driver.made // driver.size, image)
        fed = self.buffer_of(self.fed) if self.fed is not None and end == driver.size else None
        if fed is not None and fed.made < fed.size:  # rows that no op reads arrive, too
            self.events.append(RowFeed(fed.value, fed.size - fed.made, None))
        for buffer in self.buffers.values():
            buffer.close(len(self.events) - 1)
