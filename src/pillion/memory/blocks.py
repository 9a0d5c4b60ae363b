# SPDX-License-Identifier: Apache-2.0
"""Blocks of bytes that are needed for some time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from pillion.memory.events import aligned
from pillion.memory.extent import Extent, reach


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


def find_rivals(blocks: Sequence[Block]) -> None:
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
