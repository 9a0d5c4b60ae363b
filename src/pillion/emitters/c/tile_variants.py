# SPDX-License-Identifier: Apache-2.0
"""The variants of ops: complete or, inside a region, for a tile of rows. A few variants serve all runs of an op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pillion.emitters.c.actions import Location, MoveRows, ProgramItem, RowIndex, RunStep, TakeRows
from pillion.emitters.c.kernel_choice import BYTE_PRICE, KernelChoice
from pillion.ir.access import FIRST_ROW, Span
from pillion.ir.op import Op
from pillion.ir.tile import TiledOp, cut_tile, tile_attribute_changes
from pillion.ir.types import Value
from pillion.memory import (
    InnerOpRun,
    MemoryPlan,
    OpMemory,
    RegionMemory,
    RowFeed,
    RowMove,
    is_alias,
    schedule,
)
from pillion.ops import Region


@dataclass(frozen=True)
class OpVariants:
    """An op with the variants in which it runs."""

    op: Op
    cuts: tuple[TiledOp, ...] = ()
    """The variants for tiles of rows, inside a region."""
    most: int = 0
    """The index of the variant that runs most often."""

    @property
    def variants(self) -> tuple[Op, ...]:
        """All variants as ops."""
        return tuple(tile.op for tile in self.cuts) or (self.op,)

    @property
    def most_frequent(self) -> Op:
        """The variant that runs most often."""
        return self.variants[self.most]


def memory_of(choice: KernelChoice) -> OpMemory:
    """Returns the memory that an op needs with its kernel."""
    kernel, op = choice.kernel, choice.op
    return OpMemory(kernel.scratch_bytes(op), kernel.overread_bytes, kernel.in_place(op))


class VariantCache:
    """A cache of tile variants, their kernels and their memory, shared by many tilings of a graph."""

    def __init__(self, choices: Iterable[KernelChoice] = (), byte_price: float = BYTE_PRICE) -> None:
        self.byte_price = byte_price
        """The instructions that a kernel of a variant must save for a further byte of flash."""
        self.choices: dict[Op, KernelChoice] = {choice.op: choice for choice in choices}
        """The kernels of ops and variants chosen so far."""
        self._at: dict[tuple[Op, Span], TiledOp] = {}
        self._like: dict[tuple[Op, object], TiledOp] = {}
        self._memory: dict[tuple[Op, str], OpMemory] = {}

    def of(self, op: Op, span: Span) -> TiledOp:
        """Returns the variant of an op for a span of rows; equal variants are the same object."""
        at = (op, span)
        if at not in self._at:
            tiled = cut_tile(op, span)
            shapes = tuple(part.shape for part in tiled.parts.values())
            changes = tile_attribute_changes(op, span).items()
            key = (shapes, repr(sorted((name, new) for name, new in changes if name != FIRST_ROW)))
            self._at[at] = self._like.setdefault((op, key), tiled)
        return self._at[at]

    def memory(self, choice: KernelChoice) -> OpMemory:
        """Returns the memory that an op or a variant needs with its kernel."""
        key = (choice.op, choice.kernel.name)
        if key not in self._memory:
            self._memory[key] = memory_of(choice)
        return self._memory[key]


class RegionVariants:
    """A region as runs of variants of its ops."""

    def __init__(self, region: Region, known: VariantCache) -> None:
        self.body, self.known = region.body, known
        self.schedule = schedule(region)
        self._variants: dict[tuple[int, Span], int] = {}
        counts: list[Counter[int]] = [Counter() for _ in self.body.ops]
        cuts: list[dict[Op, TiledOp]] = [{} for _ in self.body.ops]
        for event in self.schedule.events:
            if isinstance(event, InnerOpRun):
                counts[event.op][self._number(event, cuts[event.op])] += 1
        self.of_ops = tuple(
            OpVariants(op, tuple(variants.values()), max(counted, key=counted.__getitem__, default=0))
            for op, variants, counted in zip(self.body.ops, cuts, counts, strict=True)
        )

    def _number(self, event: InnerOpRun, here: dict[Op, TiledOp]) -> int:
        """Returns the index of the variant for these rows, and registers a new one."""
        at = (event.op, event.span)
        if at not in self._variants:
            variant = self.known.of(self.body.ops[event.op], event.span)
            here.setdefault(variant.op, variant)
            self._variants[at] = list(here).index(variant.op)
        return self._variants[at]

    @property
    def variants(self) -> list[Op]:
        """All variants of all ops."""
        return [variant for uses in self.of_ops for variant in uses.variants]

    def memory(self, chosen: Mapping[Op, KernelChoice]) -> RegionMemory:
        """Returns the memory that the region needs with the kernels of all variants."""
        runs = {
            (op, span): self.known.memory(chosen[self.of_ops[op].variants[variant]]).scratch_bytes
            for (op, span), variant in self._variants.items()
            if not self.body.ops[op].folded_bytes
        }
        return RegionMemory(self.schedule, tuple(self._memory(uses, chosen) for uses in self.of_ops), runs)

    def _memory(self, uses: OpVariants, chosen: Mapping[Op, KernelChoice]) -> OpMemory:
        """Returns the maximum over all variants of an op. An operand may be overwritten if every variant allows
        it."""
        needs = [self.known.memory(chosen[variant]) for variant in uses.variants]
        over = [
            {operand for operand, part in tile.parts.items() if part in need.in_place}
            for tile, need in zip(uses.cuts, needs, strict=False)
        ]
        both: set[Value] = set.intersection(*over) if over else set()
        return OpMemory(
            max(need.scratch_bytes for need in needs),
            max(need.overread_bytes for need in needs),
            tuple(v for v in uses.op.activations if v in both),
        )

    def items(self, first: int, memory: MemoryPlan) -> Iterator[ProgramItem]:
        """Yields the items of the region, whose ops are the steps from `first` on."""
        for event in self.schedule.events:
            if isinstance(event, RowMove):
                value = event.value
                to, source = memory.location(value), memory.location(value, event.source)
                yield ProgramItem.at(MoveRows(event.bytes), to, source)
            elif isinstance(event, RowFeed):
                locations = () if event.start is None else (memory.location(event.value, event.start),)
                yield ProgramItem.at(TakeRows(event.rows), *locations)
            else:
                yield self._firing_item(event, first, memory)
        yield from (ProgramItem(RunStep(first + i)) for i, op in enumerate(self.body.ops) if is_alias(op))

    def _firing_item(self, event: InnerOpRun, first: int, memory: MemoryPlan) -> ProgramItem:
        op, storage = self.body.ops[event.op], self.schedule.storage
        values = (*op.activations, *op.results)
        locations: tuple[Location, ...] = tuple(memory.location(storage[v], event.starts[v]) for v in values)
        locations += (RowIndex(event.span.first),) if op.counts_rows else ()
        return ProgramItem.at(RunStep(first + event.op, self._variants[event.op, event.span]), *locations)
