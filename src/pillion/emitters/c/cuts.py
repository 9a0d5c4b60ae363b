# SPDX-License-Identifier: Apache-2.0
"""The forms in which ops are run: whole, or, inside a region, for some rows. A few forms serve all runs of an op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pillion.emitters.c.choose import Choice
from pillion.emitters.c.loops import Fire, Item, MoveRows, RowNumber, TakeRows, Where
from pillion.ir.cut import Cut, cut
from pillion.ir.op import Op
from pillion.ir.rows import FIRST_ROW, Span
from pillion.ir.types import Value
from pillion.memory import Feed, Firing, MemoryPlan, Move, OpMemory, RegionMemory, is_alias, schedule
from pillion.ops import Region


@dataclass(frozen=True)
class Uses:
    """An op and the forms in which it is run, the usual one among them."""

    op: Op
    cuts: tuple[Cut, ...] = ()
    """Inside a region: the forms that make some rows."""
    most: int = 0
    """The number of the cut that is run most often."""

    @property
    def forms(self) -> tuple[Op, ...]:
        """All forms as ops."""
        return tuple(one.op for one in self.cuts) or (self.op,)

    @property
    def usual(self) -> Op:
        """The form that is run most often."""
        return self.forms[self.most]


def memory_of(choice: Choice) -> OpMemory:
    """Gives the memory that an op needs with its kernel."""
    kernel, op = choice.kernel, choice.op
    return OpMemory(kernel.scratch_bytes(op), kernel.overread_bytes, kernel.in_place(op))


class Forms:
    """The forms of ops that make some rows, each made once, and what is known of them: many arrangements of a graph have the same ones."""

    def __init__(self, choices: Iterable[Choice] = ()) -> None:
        self.choices: dict[Op, Choice] = {choice.op: choice for choice in choices}
        """The kernels of ops and forms, as far as they were chosen."""
        self._at: dict[tuple[Op, Span], Cut] = {}
        self._like: dict[tuple[Op, object], Cut] = {}
        self._memory: dict[tuple[Op, str], OpMemory] = {}

    def of(self, op: Op, span: Span) -> Cut:
        """Gives the form of an op that makes some rows: the same one for all rows that are made alike."""
        at = (op, span)
        if at not in self._at:
            made = cut(op, span)
            shapes = tuple(part.shape for part in made.parts.values())
            changes = op.on_rows(span).items()
            key = (shapes, repr(sorted((name, new) for name, new in changes if name != FIRST_ROW)))
            self._at[at] = self._like.setdefault((op, key), made)
        return self._at[at]

    def memory(self, choice: Choice) -> OpMemory:
        """Gives the memory that an op or a form needs with its kernel."""
        key = (choice.op, choice.kernel.name)
        if key not in self._memory:
            self._memory[key] = memory_of(choice)
        return self._memory[key]


class Cuts:
    """A region as runs of forms of its ops."""

    def __init__(self, region: Region, known: Forms) -> None:
        self.body, self.known = region.body, known
        self.schedule = schedule(region)
        self._form: dict[tuple[int, Span], int] = {}
        counts: list[Counter[int]] = [Counter() for _ in self.body.ops]
        cuts: list[dict[Op, Cut]] = [{} for _ in self.body.ops]
        for event in self.schedule.events:
            if isinstance(event, Firing):
                counts[event.op][self._number(event, cuts[event.op])] += 1
        self.of_ops = tuple(
            Uses(op, tuple(forms.values()), max(counted, key=counted.__getitem__, default=0))
            for op, forms, counted in zip(self.body.ops, cuts, counts, strict=True)
        )

    def _number(self, event: Firing, here: dict[Op, Cut]) -> int:
        """The number of the form that makes these rows; a new one if there is none like it here."""
        at = (event.op, event.span)
        if at not in self._form:
            form = self.known.of(self.body.ops[event.op], event.span)
            here.setdefault(form.op, form)
            self._form[at] = list(here).index(form.op)
        return self._form[at]

    @property
    def forms(self) -> list[Op]:
        """All forms of all ops."""
        return [form for uses in self.of_ops for form in uses.forms]

    def memory(self, chosen: Mapping[Op, Choice]) -> RegionMemory:
        """Gives the memory that the region needs, with the kernels of all forms."""
        runs = {
            (op, span): self.known.memory(chosen[self.of_ops[op].forms[form]]).scratch_bytes
            for (op, span), form in self._form.items()
            if not self.body.ops[op].folded_bytes
        }
        return RegionMemory(self.schedule, tuple(self._memory(uses, chosen) for uses in self.of_ops), runs)

    def _memory(self, uses: Uses, chosen: Mapping[Op, Choice]) -> OpMemory:
        """The most that any form of an op needs. Where all of them may overwrite an operand, the op may."""
        needs = [self.known.memory(chosen[form]) for form in uses.forms]
        over = [
            {whole for whole, part in one.parts.items() if part in need.in_place}
            for one, need in zip(uses.cuts, needs, strict=False)
        ]
        both: set[Value] = set.intersection(*over) if over else set()
        return OpMemory(
            max(need.scratch_bytes for need in needs),
            max(need.overread_bytes for need in needs),
            tuple(v for v in uses.op.activations if v in both),
        )

    def items(self, first: int, memory: MemoryPlan) -> Iterator[Item]:
        """Gives all that happens in the region, whose ops are steps from `first` on."""
        for event in self.schedule.events:
            if isinstance(event, Move):
                value = event.value
                yield Item(MoveRows(event.bytes), (memory.spot(value), memory.spot(value, event.source)))
            elif isinstance(event, Feed):
                places = () if event.start is None else (memory.spot(event.value, event.start),)
                yield Item(TakeRows(event.rows, event.start is not None), places)
            else:
                yield self._fire(event, first, memory)
        yield from (Item(Fire(first + i), ()) for i, op in enumerate(self.body.ops) if is_alias(op))

    def _fire(self, event: Firing, first: int, memory: MemoryPlan) -> Item:
        op, storage = self.body.ops[event.op], self.schedule.storage
        values = (*op.activations, *op.results)
        places: tuple[Where, ...] = tuple(memory.spot(storage[v], event.starts[v]) for v in values)
        places += (RowNumber(event.span.first),) if op.counts_rows else ()
        return Item(Fire(first + event.op, self._form[event.op, event.span]), places)
