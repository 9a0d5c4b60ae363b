# SPDX-License-Identifier: Apache-2.0
"""Blocks: bytes with a live range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from pillion.memory.byte_liveness import LiveExtent, least_distance
from pillion.memory.events import align_up


@dataclass(eq=False)
class LiveBlock:
    """Bytes that are live from tick `first` to tick `last`. An op takes one tick, a region one per event."""

    size: int
    first: int
    last: int
    overlaid: LiveBlock | None = None
    """The block of the operand that a result may overwrite, if both begin at the same offset."""
    overread_bytes: int = 0
    """Bytes behind the block that a kernel may read."""
    offset: int = -1
    """The place in the arena, once it is chosen."""
    extent: LiveExtent | None = None
    """The live bytes at each tick, if not all of them are live all the time."""
    interfering: Sequence[LiveBlock] = ()
    """Interfering blocks: their live ranges overlap."""
    is_state: bool = False
    """Whether the block belongs to a state, outside the arena."""
    least_distances: dict[LiveBlock, tuple[int, int]] = field(default_factory=dict)
    """For interfering blocks that may overlap partly: the least distance if the other one begins later, and if
    this one does."""
    space_before: int = 0
    """Free bytes required in front of the block, for a result that begins before its operand."""
    bound: dict[LiveBlock, int] = field(default_factory=dict)
    """Blocks at fixed distances, itself included, with each distance from the first."""
    nested: list[LiveBlock] = field(default_factory=list)
    """Blocks that lie inside this one, an NPU's workspace."""

    def try_to_nest(self, other: LiveBlock, distance: int) -> bool:
        """Places another block inside this one; returns False if that is impossible."""
        self.nested.append(other)
        if not self.bind(other, distance):
            self.nested.pop()
            return False
        return True

    def bind(self, other: LiveBlock, distance: int) -> bool:
        """Fixes the distance to another block, and to all blocks bound to either; returns False if that is
        impossible."""
        ours, theirs = self.bound or {self: 0}, other.bound or {other: 0}
        shift = ours[self] + distance - theirs[other]
        if ours is theirs:
            return shift == 0
        moved = {block: at + shift for block, at in theirs.items()}
        works = [block for block in (*ours, *moved) if block.nested]
        if any(_blocks_overlap(a, b, moved[b] - ours[a], works) for a in ours for b in moved):
            return False
        first = min((*ours.values(), *moved.values()))
        together = {block: at - first for block, at in (*ours.items(), *moved.items())}
        for block in together:
            block.bound = together
        return True

    def least_distance_to(self, other: LiveBlock) -> int | None:
        """Returns the least distance to a block behind this one; None if they do not interfere."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        if first > last:
            return None
        distance = least_distance(
            self.size, self.extent_between(first, last), other.extent_between(first, last)
        )
        return distance if distance is None else align_up(distance)

    def extent_between(self, first: int, last: int) -> LiveExtent | None:
        """Returns the extent between two ticks."""
        return self.extent.window(first - self.first, last - self.first) if self.extent is not None else None

    def used_at(self, tick: int) -> tuple[int, int]:
        """Returns the first live byte at a tick, and the byte behind the last one."""
        if self.extent is None:
            return 0, self.size
        return int(self.extent.low[tick - self.first]), int(self.extent.high[tick - self.first])

    def overlaps(self, other: LiveBlock) -> bool:
        """Whether the live ranges overlap."""
        return self.least_distance_to(other) is not None


def _blocks_overlap(a: LiveBlock, b: LiveBlock, distance: int, works: Iterable[LiveBlock]) -> bool:
    """Whether two blocks at a fixed distance overlap while both are live. While an NPU works in the workspace that
    holds them, they may."""
    if not -b.size < distance < a.size or not a.overlaps(b):
        return False
    begin, end = max(a.first, b.first), min(a.last, b.last)
    inside = (work for work in works if {a, b} <= {work, *work.nested})
    return not any(work.first <= begin and end <= work.last for work in inside)


def live_bytes(blocks: Sequence[LiveBlock], ticks: int) -> list[int]:
    """Returns the number of live bytes at each tick."""
    # differences from tick to tick: long lives take no more work than short ones
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


def least_bytes(blocks: Sequence[LiveBlock], ticks: int) -> int:
    """Returns a lower bound for every plan: the most bytes live at once, minus the bytes that overlaid blocks
    share."""
    live = live_bytes(blocks, ticks)
    for block in blocks if any(block.extent is not None for block in blocks) else ():
        if block.overlaid is not None:
            _subtract_shared_bytes(live, block, block.overlaid)
    for block in blocks:
        for overlaid in block.nested:
            saved = min(overlaid.size, block.size - block.bound[overlaid] + block.bound[block])
            for tick in range(
                max(block.first, overlaid.first), min(block.last, overlaid.last, len(live) - 1) + 1
            ):
                live[tick] -= saved
    return max(live, default=0)


def _subtract_shared_bytes(live: list[int], block: LiveBlock, under: LiveBlock) -> None:
    """Subtracts the bytes that two blocks at the same offset share."""
    for tick in range(max(block.first, under.first), min(block.last, under.last, len(live) - 1) + 1):
        (low, high), (its_low, its_high) = block.used_at(tick), under.used_at(tick)
        live[tick] -= max(min(high, its_high) - max(low, its_low), 0)


def find_interference(blocks: Sequence[LiveBlock]) -> None:
    """Fills in the interfering blocks of each block with a sweep over the live ranges."""
    interfering: list[list[int]] = [[] for _ in blocks]
    live: list[int] = []
    for number in sorted(range(len(blocks)), key=lambda n: blocks[n].first):
        live = [neighbour for neighbour in live if blocks[neighbour].last >= blocks[number].first]
        block = blocks[number]
        meeting = [
            neighbour
            for neighbour in live
            if blocks[neighbour] not in block.bound and blocks[neighbour].overlaps(block)
        ]
        for neighbour in meeting:
            interfering[neighbour].append(number)
            _record_least_distances(blocks[number], blocks[neighbour])
        interfering[number] += meeting
        live.append(number)
    for block, numbers in zip(blocks, interfering, strict=True):
        block.interfering = [blocks[n] for n in sorted(numbers)]


def _record_least_distances(a: LiveBlock, b: LiveBlock) -> None:
    """Records the least distances between two blocks with changing liveness."""
    if a.extent is None and b.extent is None:
        return
    behind, before = a.least_distance_to(b), b.least_distance_to(a)
    assert behind is not None
    assert before is not None
    a.least_distances[b], b.least_distances[a] = (behind, before), (before, behind)
