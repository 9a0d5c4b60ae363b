# SPDX-License-Identifier: Apache-2.0
"""Loops (scan): the calls of the body are emitted once, and the locations of elements advance by their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.loop_rolling import (
    Action,
    LoadConstant,
    LoopPart,
    MoveRows,
    ProgramItem,
    RolledLoop,
    RunStep,
)
from pillion.emitters.c.tile_variants import memory_of
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory import MemoryLocation, MemoryPlan, RepeatMemory, carried_values_to_copy, storage_roots
from pillion.ops import Scan, flatten_ops


@dataclass(frozen=True)
class ScanTrack:
    """The location of a value in the first iteration, with its stride in each enclosing loop, the outermost first."""

    spot: MemoryLocation
    strides: tuple[int, ...] = ()


TrackOf = Callable[[Value], ScanTrack]
LocatedAction = tuple[Action, tuple[ScanTrack, ...]]
"""An item of the program with its locations."""


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
    for what, spots in _Writer(memory).loop_items(op, need, first, {}, 0):
        yield ProgramItem(what, tuple(track.spot for track in spots))


class _Writer:
    """Writes nested loops as items."""

    def __init__(self, memory: MemoryPlan) -> None:
        self.memory = memory

    def loop_items(
        self, op: Scan, need: RepeatMemory, first: int, around: Mapping[Value, ScanTrack], depth: int
    ) -> Iterator[LocatedAction]:
        """Yields the items of a loop inside `depth` loops; `around` are the values that advance with those."""

        def spot(value: Value) -> ScanTrack:
            return around.get(value) or ScanTrack(self.memory.spot(value), (0,) * depth)

        for initial, carried in zip(op.initial, op.carried, strict=True):
            yield from _initialize_carried(initial, spot, self.plain(carried, depth))
        moving = self.body_locations(op, spot, depth)
        body = [
            *self.body(op, need, first, moving, depth + 1),
            *self.end_of_iteration_copies(op, need, spot, moving, depth),
        ]
        parts = tuple(LoopPart(what, len(spots)) for what, spots in body)
        tracks = [track for _, spots in body for track in spots]
        outside = tuple(ScanTrack(track.spot, track.strides[:depth]) for track in tracks)
        yield RolledLoop(op.count, parts, tuple(track.strides[depth] for track in tracks)), outside
        yield RunStep(first + need.steps - 1), ()

    def plain(self, value: Value, depth: int) -> ScanTrack:
        """Returns a location that does not advance."""
        return ScanTrack(self.memory.spot(value), (0,) * depth)

    def body_locations(self, op: Scan, spot: TrackOf, depth: int) -> dict[Value, ScanTrack]:
        """Returns the locations of the values inside the body that are parts of values outside."""
        moving = {
            inner: _first_element_location(op, inner, spot(sequence))
            for sequence, inner in zip(op.sequences, op.elements, strict=True)
        }
        for outer, inner in zip(op.invariants, op.fixed, strict=True):
            track = spot(outer)
            moving[inner] = ScanTrack(track.spot, (*track.strides, 0))
        return {v: moving[root] for v, root in storage_roots(op.body).items() if root in moving}

    def body(
        self, op: Scan, need: RepeatMemory, first: int, moving: Mapping[Value, ScanTrack], depth: int
    ) -> Iterator[LocatedAction]:
        """Yields the items of one iteration."""
        for inner, inner_need in zip(op.body.ops, need.ops, strict=True):
            if isinstance(inner, Scan):
                assert isinstance(inner_need, RepeatMemory)
                yield from self.loop_items(inner, inner_need, first, moving, depth)
            else:
                values = (*inner.activations, *inner.results)
                yield RunStep(first), tuple(moving.get(v) or self.plain(v, depth) for v in values)
            first += inner_need.steps

    def end_of_iteration_copies(
        self, op: Scan, need: RepeatMemory, spot: TrackOf, moving: Mapping[Value, ScanTrack], depth: int
    ) -> Iterator[LocatedAction]:
        """Yields the copies at the end of an iteration: elements into stacked results, and loop-carried values
        into place."""
        for result, element in zip(op.stacked, op.made, strict=True):
            target = _first_element_location(op, element, spot(result))
            yield MoveRows(element.type.size_bytes), (target, self.plain(element, depth + 1))
        for carried, value in carried_values_to_copy(need):
            size = value.type.size_bytes
            yield MoveRows(size), (self.plain(carried, depth + 1), self.plain(value, depth + 1))


def _initialize_carried(initial: Value, spot: TrackOf, to: ScanTrack) -> Iterator[LocatedAction]:
    """Yields the initialization of a loop-carried value, from a constant or a computed value."""
    size = initial.type.size_bytes
    if initial.is_constant:
        yield LoadConstant(size, initial), (to,)
    else:
        yield MoveRows(size), (to, spot(initial))


def _first_element_location(op: Scan, element: Value, sequence: ScanTrack) -> ScanTrack:
    """Returns the location of an element in the first iteration."""
    size = element.type.size_bytes
    begin = (op.count - 1) * size if op.reverse else 0
    spot = replace(sequence.spot, offset=sequence.spot.offset + begin)
    return ScanTrack(spot, (*sequence.strides, -size if op.reverse else size))


def loaded_constants(op: Op) -> Sequence[Value]:
    """Returns the constants that initialize loop-carried values."""
    return [
        v for inner in flatten_ops([op]) if isinstance(inner, Scan) for v in inner.initial if v.is_constant
    ]
