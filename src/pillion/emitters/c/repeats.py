# SPDX-License-Identifier: Apache-2.0
"""Repetitions as loops: the calls of the inner graph stand once, and the places of elements move on by the size of an element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pillion.emitters.c.choose import Choice
from pillion.emitters.c.cuts import memory_of
from pillion.emitters.c.loops import Fire, Item, Load, Loop, MoveRows, Part, What
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory import MemoryPlan, RepeatMemory, Spot, moved, roots
from pillion.ops import Repeat, leaves


@dataclass(frozen=True)
class Track:
    """Where a value lies the first time, and by how much that moves on each time that a loop around comes round, the outermost
    first."""

    spot: Spot
    strides: tuple[int, ...] = ()


TrackOf = Callable[[Value], Track]
Act = tuple[What, tuple[Track, ...]]
"""Something that is done, and its places."""


def repeat_memory(op: Repeat, chosen: Mapping[Op, Choice]) -> RepeatMemory:
    """Gives the memory that a repetition needs with the kernels of its ops."""
    return RepeatMemory(
        op,
        tuple(
            repeat_memory(inner, chosen) if isinstance(inner, Repeat) else memory_of(chosen[inner])
            for inner in op.body.ops
        ),
    )


def repeat_items(op: Repeat, need: RepeatMemory, first: int, memory: MemoryPlan) -> Iterator[Item]:
    """Gives what a repetition does, whose inner ops are the program's steps from `first` on."""
    for what, spots in _Writer(memory).acts(op, need, first, {}, 0):
        yield Item(what, tuple(one.spot for one in spots))


class _Writer:
    """Writes repetitions inside of one another."""

    def __init__(self, memory: MemoryPlan) -> None:
        self.memory = memory

    def acts(
        self, op: Repeat, need: RepeatMemory, first: int, around: Mapping[Value, Track], depth: int
    ) -> Iterator[Act]:
        """Gives what a repetition does inside of `depth` loops. `around` are the values that move on with those."""

        def spot(value: Value) -> Track:
            return around.get(value) or Track(self.memory.spot(value), (0,) * depth)

        for initial, carried in zip(op.initial, op.carried, strict=True):
            yield from _begin(initial, spot, self.plain(carried, depth))
        moving = self.moving(op, spot, depth)
        body = [*self.body(op, need, first, moving, depth + 1), *self.put_away(op, need, spot, moving, depth)]
        parts = tuple(Part(what, len(spots)) for what, spots in body)
        places = [one for _, spots in body for one in spots]
        outside = tuple(Track(one.spot, one.strides[:depth]) for one in places)
        yield Loop(op.count, parts, tuple(one.strides[depth] for one in places)), outside
        yield Fire(first + need.steps - 1), ()

    def plain(self, value: Value, depth: int) -> Track:
        """A place that does not move."""
        return Track(self.memory.spot(value), (0,) * depth)

    def moving(self, op: Repeat, spot: TrackOf, depth: int) -> dict[Value, Track]:
        """Where the values inside are that are parts of values outside."""
        moving = {
            inner: _element(op, inner, spot(whole))
            for whole, inner in zip(op.sequences, op.elements, strict=True)
        }
        for outer, inner in zip(op.invariants, op.fixed, strict=True):
            held = spot(outer)
            moving[inner] = Track(held.spot, (*held.strides, 0))
        return {v: moving[root] for v, root in roots(op).items() if root in moving}

    def body(
        self, op: Repeat, need: RepeatMemory, first: int, moving: Mapping[Value, Track], depth: int
    ) -> Iterator[Act]:
        """What is done each time."""
        for inner, inner_need in zip(op.body.ops, need.ops, strict=True):
            if isinstance(inner, Repeat):
                assert isinstance(inner_need, RepeatMemory)
                yield from self.acts(inner, inner_need, first, moving, depth)
            else:
                values = (*inner.activations, *inner.results)
                yield Fire(first), tuple(moving.get(v) or self.plain(v, depth) for v in values)
            first += inner_need.steps

    def put_away(
        self, op: Repeat, need: RepeatMemory, spot: TrackOf, moving: Mapping[Value, Track], depth: int
    ) -> Iterator[Act]:
        """Elements of stacked results go to their places, and what is carried where the next time finds it."""
        for whole, made in zip(op.stacked, op.made, strict=True):
            target = _element(op, made, spot(whole))
            yield MoveRows(made.type.size_bytes), (target, self.plain(made, depth + 1))
        for carried, value in moved(need):
            size = value.type.size_bytes
            yield MoveRows(size), (self.plain(carried, depth + 1), self.plain(value, depth + 1))


def _begin(initial: Value, spot: TrackOf, to: Track) -> Iterator[Act]:
    """A carried value begins with a constant, or with what was computed before."""
    size = initial.type.size_bytes
    if initial.is_constant:
        yield Load(size, initial), (to,)
    else:
        yield MoveRows(size), (to, spot(initial))


def _element(op: Repeat, element: Value, whole: Track) -> Track:
    """The place of an element the first time."""
    size = element.type.size_bytes
    begin = (op.count - 1) * size if op.reverse else 0
    spot = replace(whole.spot, offset=whole.spot.offset + begin)
    return Track(spot, (*whole.strides, -size if op.reverse else size))


def loaded(op: Op) -> Sequence[Value]:
    """Gives the constants with which carried values begin."""
    return [v for one in leaves([op]) if isinstance(one, Repeat) for v in one.initial if v.is_constant]
