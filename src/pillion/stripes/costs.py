# SPDX-License-Identifier: Apache-2.0
"""What ops take that make a few rows at a time, beyond what they take whole: estimates from what is said beside each kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pillion.devices.cortex_m import Isa
from pillion.devices.cortex_m.estimate import instructions
from pillion.emitters.c.choose import Choice, choose
from pillion.emitters.c.cuts import Forms
from pillion.emitters.c.kernel import A_CALL
from pillion.ir.graph import Graph
from pillion.ir.rows import Span, row_bytes
from pillion.memory.events import Event, Firing, Move, is_alias
from pillion.ops.region import rows_made

INSTRUCTIONS_PER_MOVED_BYTE = {Isa.MVE: 0.2, Isa.DSP: 1.0, Isa.SCALAR: 1.0, Isa.PORTABLE: 1.0}
"""Measured in the emulator, loops included."""
INSTRUCTIONS_PER_KEPT_BYTE = 0.75
"""For each call of an op that takes rows a few at a time: what it keeps is read and written."""


class Costs:
    """The instructions of the ops of one graph, as its kernels say them."""

    def __init__(self, graph: Graph, choices: Sequence[Choice], isa: Isa, known: Forms | None = None) -> None:
        self.graph, self.choices, self.isa = graph, choices, isa
        self.known = known or Forms()
        self.of_moved_byte = INSTRUCTIONS_PER_MOVED_BYTE[isa]
        self._forms: dict[tuple[int, int], Choice] = {}
        self._beyond: dict[tuple[int, int], float] = {}

    def of_whole(self) -> float:
        """Gives the instructions of all ops that run whole: of two estimates the lower one, so that no share of them is taken for less
        than it is."""
        known = [
            (choice.kernel.work, choice.op, instructions(choice.op, self.isa)) for choice in self.choices
        ]
        return sum(min(work(op), usual) if work else usual for work, op, usual in known)

    def of_events(self, first: int, events: Sequence[Event]) -> float:
        """Gives the instructions that are added by all that happens in a region of the ops from `first` on."""
        fired = Counter((e.op, e.span.count) for e in events if isinstance(e, Firing))
        calls = sum(times * self.beyond(first + op, rows) for (op, rows), times in fired.items())
        moved = sum(
            event.bytes if isinstance(event, Move) else event.rows * row_bytes(event.value)
            for event in events
            if not isinstance(event, Firing)
        )
        return calls + moved * self.of_moved_byte

    def form(self, i: int, rows: int) -> Choice:
        """Gives the kernel of an op where it makes some rows in the middle of the image: that may be another one than of the whole op."""
        if (i, rows) not in self._forms:
            op = self.graph.ops[i]
            form = self.known.of(op, Span(rows_made(op) // 2 // rows * rows, rows)).op
            if form not in self.known.choices:
                (self.known.choices[form],) = choose(self.graph.replace(ops=(form,)), self.isa)
            self._forms[i, rows] = self.known.choices[form]
        return self._forms[i, rows]

    def beyond(self, i: int, rows: int) -> float:
        """Gives the instructions of a call that makes some rows of an op, beyond the share of these rows in what the whole op takes."""
        if (i, rows) not in self._beyond:
            self._beyond[i, rows] = self._found_beyond(i, rows)
        return self._beyond[i, rows]

    def _found_beyond(self, i: int, rows: int) -> float:
        op, whole = self.graph.ops[i], self.choices[i].kernel
        if is_alias(op):
            return 0.0
        if op.folded_bytes:
            return whole.each_call.call + INSTRUCTIONS_PER_KEPT_BYTE * op.folded_bytes
        form = self.form(i, rows)
        share = rows / (rows_made(op) * op.results[0].shape[0])
        is_said = form.kernel is whole and whole.each_call is not A_CALL
        if whole.work and form.kernel.work and not is_said:
            return form.kernel.work(form.op) - share * whole.work(op)
        return form.kernel.each_call.of(op, rows) - share * whole.each_call.of(op, rows_made(op))
