# SPDX-License-Identifier: Apache-2.0
"""The forms in which ops are run: whole, or, inside a region, for some rows. A few forms serve all runs of an op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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


class Cuts:
    """A region as runs of forms of its ops."""

    def __init__(self, region: Region) -> None:
        self.body = region.body
        self.schedule = schedule(region)
        self._form: dict[tuple[int, Span], int] = {}
        counts: list[Counter[int]] = [Counter() for _ in self.body.ops]
        cuts: list[dict[object, Cut]] = [{} for _ in self.body.ops]
        for event in self.schedule.events:
            if isinstance(event, Firing):
                counts[event.op][self._number(event, cuts[event.op])] += 1
        self.of_ops = tuple(
            Uses(op, tuple(forms.values()), max(counted, key=counted.__getitem__, default=0))
            for op, forms, counted in zip(self.body.ops, cuts, counts, strict=True)
        )

    def _number(self, event: Firing, known: dict[object, Cut]) -> int:
        """The number of the form that makes these rows; a new one if there is none like it."""
        at = (event.op, event.span)
        if at not in self._form:
            made = cut(self.body.ops[event.op], event.span)
            shapes = tuple(part.shape for part in made.parts.values())
            changes = self.body.ops[event.op].on_rows(event.span).items()
            key = (shapes, repr(sorted((name, new) for name, new in changes if name != FIRST_ROW)))
            known.setdefault(key, made)
            self._form[at] = list(known).index(key)
        return self._form[at]

    @property
    def forms(self) -> list[Op]:
        """All forms of all ops."""
        return [form for uses in self.of_ops for form in uses.forms]

    def memory(self, chosen: Mapping[Op, Choice]) -> RegionMemory:
        """Gives the memory that the region needs, with the kernels of all forms."""
        runs = {
            (op, span): memory_of(chosen[self.of_ops[op].forms[form]]).scratch_bytes
            for (op, span), form in self._form.items()
            if not self.body.ops[op].folded_bytes
        }
        return RegionMemory(self.schedule, tuple(_memory(uses, chosen) for uses in self.of_ops), runs)

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


def _memory(uses: Uses, chosen: Mapping[Op, Choice]) -> OpMemory:
    """The most that any form of an op needs. Where all of them may overwrite an operand, the op may."""
    needs = [memory_of(chosen[form]) for form in uses.forms]
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
