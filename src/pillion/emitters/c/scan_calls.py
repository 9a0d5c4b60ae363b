# SPDX-License-Identifier: Apache-2.0
"""Loops (scan): the calls of the body are emitted once, and the locations of elements advance by their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pillion.emitters.c.actions import (
    LoadConstant,
    MoveRows,
    MovingLocation,
    ProgramItem,
    RolledLoop,
    RunStep,
)
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.tile_variants import memory_of
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory import MemoryPlan, RepeatMemory, carried_values_to_copy, storage_roots
from pillion.ops import Scan, flatten_ops

LocationOf = Callable[[Value], MovingLocation]


def repeat_memory(op: Scan, chosen: Mapping[Op, KernelChoice]) -> RepeatMemory:
    """Returns the memory that a loop needs with the kernels of its ops."""
    return RepeatMemory(
        op,
        tuple(
            repeat_memory(inner, chosen) if isinstance(inner, Scan) else memory_of(chosen[inner])
            for inner in op.body.ops
        ),
    )


def repeat_items(op: Scan, need: RepeatMemory, first: int, memory: MemoryPlan) -> Iterator[ProgramItem]:
    """Yields the items of a loop; the ops of its body are the program's steps from `first` on."""
    yield from _Writer(memory).loop_items(op, need, first, {}, 0)


class _Writer:
    """Writes nested loops as items."""

    def __init__(self, memory: MemoryPlan) -> None:
        self.memory = memory

    def loop_items(
        self, op: Scan, need: RepeatMemory, first: int, around: Mapping[Value, MovingLocation], depth: int
    ) -> Iterator[ProgramItem]:
        """Yields the items of a loop inside `depth` loops. `around` has the values that advance with the enclosing
        loops."""

        def spot(value: Value) -> MovingLocation:
            return around.get(value) or MovingLocation(self.memory.location(value), (0,) * depth)

        for initial, carried in zip(op.initial, op.carried, strict=True):
            yield from _initialize_carried(initial, spot, self.plain(carried, depth))
        moving = self.body_locations(op, spot, depth)
        body = (
            *self.body(op, need, first, moving, depth + 1),
            *self.end_of_iteration_copies(op, need, spot, moving, depth),
        )
        yield ProgramItem(RolledLoop(op.count, body))
        yield ProgramItem(RunStep(first + need.steps - 1))

    def plain(self, value: Value, depth: int) -> MovingLocation:
        """Returns a location that does not advance."""
        return MovingLocation(self.memory.location(value), (0,) * depth)

    def body_locations(self, op: Scan, spot: LocationOf, depth: int) -> dict[Value, MovingLocation]:
        """Returns the locations of the values inside the body that are parts of values outside."""
        moving = {
            inner: _first_element_location(op, inner, spot(sequence))
            for sequence, inner in zip(op.sequences, op.elements, strict=True)
        }
        for outer, inner in zip(op.invariants, op.fixed, strict=True):
            track = spot(outer)
            moving[inner] = MovingLocation(track.start, (*track.strides, 0))
        return {v: moving[root] for v, root in storage_roots(op.body).items() if root in moving}

    def body(
        self, op: Scan, need: RepeatMemory, first: int, moving: Mapping[Value, MovingLocation], depth: int
    ) -> Iterator[ProgramItem]:
        """Yields the items of one iteration."""
        for inner, inner_need in zip(op.body.ops, need.ops, strict=True):
            if isinstance(inner, Scan):
                assert isinstance(inner_need, RepeatMemory)
                yield from self.loop_items(inner, inner_need, first, moving, depth)
            else:
                values = (*inner.activations, *inner.results)
                places = tuple(moving.get(v) or self.plain(v, depth) for v in values)
                yield ProgramItem(RunStep(first), places)
            first += inner_need.steps

    def end_of_iteration_copies(
        self,
        op: Scan,
        need: RepeatMemory,
        spot: LocationOf,
        moving: Mapping[Value, MovingLocation],
        depth: int,
    ) -> Iterator[ProgramItem]:
        """Yields the copies at the end of an iteration: elements into stacked results, and loop-carried values
        into place."""
        for result, element in zip(op.stacked, op.made, strict=True):
            target = _first_element_location(op, element, spot(result))
            source = self.plain(element, depth + 1)
            yield ProgramItem(MoveRows(element.type.size_bytes), (target, source))
        for carried, value in carried_values_to_copy(need):
            size = value.type.size_bytes
            places = (self.plain(carried, depth + 1), self.plain(value, depth + 1))
            yield ProgramItem(MoveRows(size), places)


def _initialize_carried(initial: Value, spot: LocationOf, to: MovingLocation) -> Iterator[ProgramItem]:
    """Yields the initialization of a loop-carried value, from a constant or a computed value."""
    size = initial.type.size_bytes
    if initial.is_constant:
        yield ProgramItem(LoadConstant(size, initial), (to,))
    else:
        yield ProgramItem(MoveRows(size), (to, spot(initial)))


def _first_element_location(op: Scan, element: Value, sequence: MovingLocation) -> MovingLocation:
    """Returns the location of an element in the first iteration."""
    size = element.type.size_bytes
    begin = (op.count - 1) * size if op.reverse else 0
    spot = replace(sequence.start, offset=sequence.start.offset + begin)
    return MovingLocation(spot, (*sequence.strides, -size if op.reverse else size))


def loaded_constants(op: Op) -> Sequence[Value]:
    """Returns the constants that initialize loop-carried values."""
    return [
        v for inner in flatten_ops([op]) if isinstance(inner, Scan) for v in inner.initial if v.is_constant
    ]
