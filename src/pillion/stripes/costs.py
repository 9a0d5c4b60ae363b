# SPDX-License-Identifier: Apache-2.0
"""What ops take that make a few rows at a time, beyond what they take whole: estimates from what is said beside each kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pillion.devices.cortex_m import Isa
from pillion.devices.cortex_m.estimate import instructions
from pillion.emitters.c.choose import Choice, choose, choose_together
from pillion.emitters.c.cuts import Forms
from pillion.emitters.c.kernel import A_CALL
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.rows import Span, row_bytes
from pillion.ir.verdict import all_ok
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
        self._edges: dict[tuple[int, int], float] = {}

    def of_whole(self) -> float:
        """Gives the instructions of all ops that run whole: of two estimates the lower one, so that no share of them is taken for less
        than it is."""
        known = [
            (choice.kernel.work, choice.op, instructions(choice.op, self.isa)) for choice in self.choices
        ]
        return sum(min(work(op), usual) if work else usual for work, op, usual in known)

    def of_events(self, first: int, events: Sequence[Event]) -> float:
        """Gives the instructions that are added by all that happens in a region of the ops from `first` on: of each run by the kernel that makes
        these rows there, with the padding that they meet."""
        fired: dict[int, Counter[tuple[Op, int]]] = {}
        for event in events:
            if isinstance(event, Firing):
                op = self.graph.ops[first + event.op]
                form = op if is_alias(op) or op.folded_bytes else self.known.of(op, event.span).op
                fired.setdefault(first + event.op, Counter())[form, event.span.count] += 1
        moved = sum(
            event.bytes if isinstance(event, Move) else event.rows * row_bytes(event.value)
            for event in events
            if not isinstance(event, Firing)
        )
        return sum(self._of_runs(i, runs) for i, runs in fired.items()) + moved * self.of_moved_byte

    def _of_runs(self, i: int, runs: Counter[tuple[Op, int]]) -> float:
        """The instructions that all runs of one op add, by the forms that they have."""
        forms = tuple(dict.fromkeys(form for form, _ in runs))
        chosen = {form: self._choice(form) for form in forms}
        usual = max(forms, key=lambda form: sum(n for (one, _), n in runs.items() if one is form))
        chosen |= choose_together(forms, usual, chosen, self.graph.arithmetic, self.isa)
        return sum(times * self._beyond_of(i, chosen[form], rows) for (form, rows), times in runs.items())

    def _choice(self, form: Op) -> Choice:
        if form not in self.known.choices:
            (self.known.choices[form],) = choose(self.graph.replace(ops=(form,)), self.isa)
        return self.known.choices[form]

    def form(self, i: int, rows: int) -> Choice:
        """Gives the kernel of an op where it makes some rows in the middle of the image: that may be another one than of the whole op."""
        if (i, rows) not in self._forms:
            first = rows_made(self.graph.ops[i]) // 2 // rows * rows
            self._forms[i, rows] = self._form_at(i, Span(first, rows))
        return self._forms[i, rows]

    def _form_at(self, i: int, span: Span) -> Choice:
        """The kernel of an op where it makes these rows: that of the whole op, where forms would need constants of their own otherwise."""
        form, kernel = self.known.of(self.graph.ops[i], span).op, self.choices[i].kernel
        if kernel.own_constants and all_ok(kernel.takes(form, self.graph.arithmetic)):
            return Choice(form, kernel, ())
        return self._choice(form)

    def at_edges(self, i: int, rows: int) -> float:
        """Gives the instructions by which the calls that make the first and the last rows of an image take more than those in its middle."""
        if (i, rows) not in self._edges:
            op, count = self.graph.ops[i], rows_made(self.graph.ops[i])
            if is_alias(op) or op.folded_bytes or 2 * rows > count:
                self._edges[i, rows] = 0.0
            else:
                middle = self.beyond(i, rows)
                ends = (Span(0, rows), Span(count - rows, rows))
                self._edges[i, rows] = sum(
                    self._beyond_of(i, self._form_at(i, end), rows) - middle for end in ends
                )
        return self._edges[i, rows]

    def beyond(self, i: int, rows: int) -> float:
        """Gives the instructions of a call that makes some rows of an op, beyond the share of these rows in what the whole op takes."""
        if (i, rows) not in self._beyond:
            op = self.graph.ops[i]
            is_whole = is_alias(op) or op.folded_bytes
            form = self.choices[i] if is_whole else self.form(i, rows)
            self._beyond[i, rows] = self._beyond_of(i, form, rows)
        return self._beyond[i, rows]

    def _beyond_of(self, i: int, form: Choice, rows: int) -> float:
        """The same, of a form with its kernel."""
        op, whole = self.graph.ops[i], self.choices[i].kernel
        if is_alias(op):
            return 0.0
        if op.folded_bytes:
            return whole.each_call.call + INSTRUCTIONS_PER_KEPT_BYTE * op.folded_bytes
        share = rows / (rows_made(op) * op.results[0].shape[0])
        is_said = form.kernel is whole and whole.each_call is not A_CALL
        if whole.work and form.kernel.work and not is_said:
            return form.kernel.work(form.op) - share * whole.work(op)
        return form.kernel.each_call.of(op, rows) - share * whole.each_call.of(op, rows_made(op))
