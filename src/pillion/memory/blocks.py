# SPDX-License-Identifier: Apache-2.0
"""Blocks of bytes that are needed for some time, and where in the arena they are put: first fit in several orders and then in shuffled ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from pillion.memory.events import aligned
from pillion.memory.extent import Extent, reach

SHUFFLES = 300
"""Tries after the fixed orders, at most."""
CLIMBS = 2
"""Times as many where some blocks have now more, now less in use: there is more to find."""
MOST_MEETINGS = 4_000_000
"""Pairs of blocks that are compared in all shuffled tries together: some seconds."""


@dataclass(eq=False)
class Block:
    """Bytes that are needed from tick `first` to tick `last`; `over` may be overlaid if both begin at one place. An op takes one tick,
    a region one for each of its events: there, `extent` says which of the bytes are in use at each tick from the first to the last."""

    size: int
    first: int
    last: int
    over: Block | None = None
    tail: int = 0
    offset: int = -1
    extent: Extent | None = None
    rivals: Sequence[Block] = ()
    """The blocks that are live at some time when this one is."""
    is_home: bool = False
    """Whether it belongs to a state, and lies outside the arena."""
    apart: dict[Block, tuple[int, int]] = field(default_factory=dict)
    """Rivals of which only some bytes are in use while this one is there: how far behind its own beginning such a one may begin, and how
    far behind that one's beginning this one may."""
    room: int = 0
    """Bytes that are left before it for what is made of it, where nothing else is."""
    bound: dict[Block, int] = field(default_factory=dict)
    """The blocks that lie at fixed distances from this one, itself among them, and how far each lies behind the first."""
    held: list[Block] = field(default_factory=list)
    """The blocks that lie inside of this one, which is a workspace: what is read there, and what is made."""

    def holds(self, other: Block, distance: int) -> bool:
        """Puts another block inside of this one, so far behind its beginning. False where that cannot be."""
        self.held.append(other)
        if not self.bind(other, distance):
            self.held.pop()
            return False
        return True

    def bind(self, other: Block, distance: int) -> bool:
        """Puts another block at a fixed distance behind this one, with all that is bound to either. False where that cannot be."""
        ours, theirs = self.bound or {self: 0}, other.bound or {other: 0}
        shift = ours[self] + distance - theirs[other]
        if ours is theirs:
            return shift == 0
        moved = {block: at + shift for block, at in theirs.items()}
        works = [block for block in (*ours, *moved) if block.held]
        if any(_collide(a, b, moved[b] - ours[a], works) for a in ours for b in moved):
            return False
        first = min((*ours.values(), *moved.values()))
        together = {block: at - first for block, at in (*ours.items(), *moved.items())}
        for block in together:
            block.bound = together
        return True

    def reach(self, other: Block) -> int | None:
        """Gives how far behind the beginning of this block another one may begin; None if they are never needed at one tick."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        if first > last:
            return None
        found = reach(self.size, self.seen(first, last), other.seen(first, last))
        return found if found is None else aligned(found)

    def seen(self, first: int, last: int) -> Extent | None:
        """Gives what is in use from one tick to another."""
        return self.extent.window(first - self.first, last - self.first) if self.extent is not None else None

    def used_at(self, tick: int) -> tuple[int, int]:
        """Gives the first byte that is in use at a tick, and the one behind the last."""
        if self.extent is None:
            return 0, self.size
        return int(self.extent.low[tick - self.first]), int(self.extent.high[tick - self.first])

    def meets(self, other: Block) -> bool:
        """Says whether both are needed at some tick."""
        return self.reach(other) is not None


def _collide(one: Block, other: Block, distance: int, works: Iterable[Block]) -> bool:
    """Whether two blocks lie over one another, so far apart, while both are needed, but for the time of a workspace that holds them: what
    is read and made there may share its bytes, as who works there wants it."""
    if not -other.size < distance < one.size or not one.meets(other):
        return False
    begin, end = max(one.first, other.first), min(one.last, other.last)
    inside = (work for work in works if {one, other} <= {work, *work.held})
    return not any(work.first <= begin and end <= work.last for work in inside)


def live_bytes(blocks: Sequence[Block], ticks: int) -> list[int]:
    """Gives the bytes that are in use at each tick."""
    # what comes at a tick, less what goes: what lives long is no more work than what lives shortly
    changes = [0] * (max(ticks, 1) + 1)
    for block in blocks:
        if block.extent is None:
            changes[min(block.first, len(changes) - 1)] += block.size
            changes[min(block.last + 1, len(changes) - 1)] -= block.size
    live = np.array(list(accumulate(changes[:-1])), np.int64)
    for block in blocks:
        if block.extent is not None:
            there = live[block.first : block.last + 1]
            there += block.extent.used[: len(there)]
    return [int(size) for size in live]


def least_bytes(blocks: Sequence[Block], ticks: int) -> int:
    """Gives the size below which no plan of them is looked for: what is live at once, where something in a region lies over something
    else less what both have in use."""
    live = live_bytes(blocks, ticks)
    for block in blocks if any(block.extent is not None for block in blocks) else ():
        if block.over is not None:
            _save(live, block, block.over)
    for block in blocks:
        for held in block.held:
            saved = min(held.size, block.size - block.bound[held] + block.bound[block])
            for tick in range(max(block.first, held.first), min(block.last, held.last, len(live) - 1) + 1):
                live[tick] -= saved
    return max(live, default=0)


def _save(live: list[int], block: Block, under: Block) -> None:
    """Takes off what two blocks that begin at one place both have in use."""
    for tick in range(max(block.first, under.first), min(block.last, under.last, len(live) - 1) + 1):
        (low, high), (its_low, its_high) = block.used_at(tick), under.used_at(tick)
        live[tick] -= max(min(high, its_high) - max(low, its_low), 0)


def put_in_place(blocks: Sequence[Block], floor: int, is_quick: bool = False) -> int:
    """Gives every block an offset; the size of the best plan found, or, where it has to be quick, of the best in a few orders."""
    orders: tuple[Callable[[Block], tuple[int, int]], ...] = (
        lambda b: (-b.size, b.first),
        lambda b: (-(b.last - b.first), -b.size),
        lambda b: (b.first, -b.size),
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (-b.last, -b.size),
    )
    _find_rivals(blocks)
    found = _Fit(blocks, floor)
    fixed = [_in_order(blocks, key) for key in orders]
    for order in fixed:
        found.take(order)
    meetings = sum(len(block.rivals) for block in blocks) + 1
    tries = 0 if is_quick else min(SHUFFLES, MOST_MEETINGS // meetings)
    if any(block.extent is not None for block in blocks):
        found.climb(fixed, tries * CLIMBS)
    else:
        found.shuffle(fixed[0], tries)
    for block, offset in zip(blocks, found.offsets, strict=True):
        block.offset = offset
    return found.size or 0


def _in_order(blocks: Sequence[Block], key: Callable[[Block], tuple[int, int]]) -> list[int]:
    """The numbers of blocks in an order."""
    return sorted(range(len(blocks)), key=lambda number: key(blocks[number]))


class _Fit:
    """The best plan that was found so far."""

    def __init__(self, blocks: Sequence[Block], floor: int) -> None:
        self.floor = floor
        self.size: int | None = None
        self.order: list[int] = []
        self.has_room = True
        self.offsets: list[int] = [0] * len(blocks)
        numbers = {block: number for number, block in enumerate(blocks)}
        self.blocks = [
            _Numbered(
                block.size,
                block.room,
                [(numbers[rival], *_around(block, rival)) for rival in block.rivals],
                {numbers[r] for r in block.rivals if r is block.over or r.over is block},
                {numbers[other]: at for other, at in block.bound.items()},
            )
            for block in blocks
        ]

    @property
    def is_done(self) -> bool:
        """Whether nothing smaller is looked for."""
        return self.size is not None and self.size <= self.floor

    def take(self, order: list[int], more: int = 0, has_room: bool = True) -> None:
        """Puts blocks one after another in an order, and keeps that if it is less than `more` bytes larger than the best plan."""
        if self.is_done:
            return
        offsets = self._first_fit(order, None if self.size is None else self.size + more, has_room)
        if offsets is not None:
            size = max((offsets[n] + b.size for n, b in enumerate(self.blocks)), default=0)
            self.order, self.size, self.offsets, self.has_room = order, size, offsets, has_room

    def shuffle(self, order: Sequence[int], tries: int) -> None:
        """Tries orders that are a little different from one."""
        dice = random.Random(0)
        for _ in range(0 if self.is_done else tries):
            self.take(_shuffled(order, 3, dice))

    def climb(self, starts: Sequence[list[int]], tries: int) -> None:
        """Goes on from several orders: to others that are a little different, as long as the plan gets no larger."""
        best = self.size, self.order, self.offsets
        rooms = [True, False] if any(block.room for block in self.blocks) else [True]
        for has_room in rooms:
            for order in starts:
                if self.is_done:
                    return
                self.size = None
                self.take(order, 0, has_room)
                self._climb(tries // len(starts) // len(rooms))
                best = min(best, (self.size, self.order, self.offsets), key=lambda one: one[0] or 0)
                self.size, self.order, self.offsets = best

    def _climb(self, tries: int) -> None:
        dice = random.Random(0)
        for _ in range(0 if self.is_done else tries):
            order = _shuffled(self.order, dice.randint(0, 2), dice)
            if dice.random() < 0.5:
                at = order.index(max(order, key=self._end))
                order.insert(dice.randint(0, at), order.pop(at))
            self.take(order, 1, self.has_room)

    def _end(self, number: int) -> int:
        """Where a block ends in the best plan."""
        return self.offsets[number] + self.blocks[number].size

    def _first_fit(self, order: Sequence[int], bound: int | None, has_room: bool) -> list[int] | None:
        """Places blocks one after another; None as soon as the plan is not smaller than a bound."""
        offsets = [-1] * len(self.blocks)
        for number in order:
            if offsets[number] >= 0:
                continue
            block = self.blocks[number]
            if block.bound:
                end = self._put_bound(block.bound, offsets)
            else:
                offsets[number] = at = _place(block, offsets, has_room)
                end = at + block.size
            if bound is not None and end >= bound:
                return None
        return offsets

    def _put_bound(self, bound: Mapping[int, int], offsets: list[int]) -> int:
        """Gives blocks that are bound to one another the lowest places where none of them lies over a rival; where the last one ends."""
        taken = sorted(
            (placed - before - at, placed + behind - at)
            for number, at in bound.items()
            for other, before, behind in self.blocks[number].rivals
            if (placed := offsets[other]) >= 0
        )
        first = 0
        for begin, end in taken:
            if begin < first < end:
                first = end
        for number, at in bound.items():
            offsets[number] = first + at
        return max(offsets[number] + self.blocks[number].size for number in bound)


@dataclass(frozen=True)
class _Numbered:
    """A block among others that have numbers."""

    size: int
    room: int
    rivals: list[tuple[int, int, int]]
    """The number of each rival, how far behind this block's beginning that may begin, and how far behind that one's this one may."""
    partners: set[int]
    """The numbers of those that lie where it lies, if they can."""
    bound: dict[int, int]
    """The numbers of those that are bound to it, itself among them, and how far each lies behind the first."""


def _place(block: _Numbered, offsets: Sequence[int], has_room: bool) -> int:
    """Where a block goes among those that have an offset."""
    taken = sorted(
        [
            (at - before + block.size, at + behind, other)
            for other, before, behind in block.rivals
            if (at := offsets[other]) >= 0
        ]
    )
    at = _overlaid(block, taken, offsets) if block.partners else -1
    return at if at >= 0 else _lowest_gap(block, taken, block.room if has_room else 0)


def _around(block: Block, rival: Block) -> tuple[int, int]:
    return block.apart.get(rival) or (block.size, rival.size)


def _shuffled(order: Sequence[int], moves: int, dice: random.Random) -> list[int]:
    """An order in which so many have gone elsewhere."""
    other = list(order)
    for _ in range(moves):
        i, j = dice.randrange(len(other)), dice.randrange(len(other))
        other.insert(i, other.pop(j))
    return other


def _find_rivals(blocks: Sequence[Block]) -> None:
    """Tells each block which others are live at some time when it is, in the order of the list. In running order only the
    blocks that are live still are looked at: nobody meets the rest."""
    rivals: list[list[int]] = [[] for _ in blocks]
    live: list[int] = []
    for number in sorted(range(len(blocks)), key=lambda n: blocks[n].first):
        live = [other for other in live if blocks[other].last >= blocks[number].first]
        block = blocks[number]
        meeting = [other for other in live if blocks[other] not in block.bound and blocks[other].meets(block)]
        for other in meeting:
            rivals[other].append(number)
            _note_apart(blocks[number], blocks[other])
        rivals[number] += meeting
        live.append(number)
    for block, numbers in zip(blocks, rivals, strict=True):
        block.rivals = [blocks[n] for n in sorted(numbers)]


def _note_apart(one: Block, other: Block) -> None:
    """Notes how far apart two blocks begin of which one has now more, now less in use."""
    if one.extent is None and other.extent is None:
        return
    behind, before = one.reach(other), other.reach(one)
    assert behind is not None
    assert before is not None
    one.apart[other], other.apart[one] = (behind, before), (before, behind)


def _overlaid(block: _Numbered, taken: Sequence[tuple[int, int, int]], offsets: Sequence[int]) -> int:
    """The offset of the operand that the block may overwrite, or that of the result that may overwrite the block; -1 if
    neither is placed or something else is in the way."""
    for partner in sorted(block.partners, key=offsets.__getitem__):
        at = offsets[partner]
        if at >= 0 and all(
            end <= at or at + block.size <= begin for begin, end, other in taken if other != partner
        ):
            return at
    return -1


def _lowest_gap(block: _Numbered, taken: Sequence[tuple[int, int, int]], at: int) -> int:
    """The lowest place from an offset on that is free."""
    for begin, end, _ in taken:
        if at + block.size <= begin:
            return at
        at = max(at, end)
    return at
