# SPDX-License-Identifier: Apache-2.0
"""Blocks of bytes that are needed for some time, and where in the arena they are put: first fit in several orders and then in shuffled ones."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

SHUFFLES = 300
"""Tries after the fixed orders, at most."""
MOST_MEETINGS = 4_000_000
"""Pairs of blocks that are compared in all shuffled tries together: some seconds."""


@dataclass(eq=False)
class Block:
    """Bytes that are needed from tick `first` to tick `last`; `over` may be overlaid if both begin at one place. An op takes one tick,
    a region one for each of its events: there, `live` has a bit for each tick at which the bytes are needed."""

    size: int
    first: int
    last: int
    over: Block | None = None
    tail: int = 0
    offset: int = -1
    live: int = 0
    rivals: Sequence[Block] = ()
    """The blocks that are live at some time when this one is."""
    is_home: bool = False
    """Whether it belongs to a state, and lies outside the arena."""
    lags: dict[Block, int] = field(default_factory=dict)
    """Other blocks that this one may follow while both are needed, and by how many bytes at least it begins before them then."""
    followers: list[Block] = field(default_factory=list)
    """The blocks that may follow this one."""
    room: int = 0
    """Bytes that are left before it for what follows it, where nothing else is."""
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

    def may_follow(self, other: Block, lag: int) -> None:
        """Allows this block to lie over another, so many bytes before it."""
        if lag < self.size:  # or else it lies apart
            self.lags[other] = lag
            other.room = min([lag] + [other.room] * bool(other.followers))
            other.followers.append(self)

    def meets(self, other: Block) -> bool:
        """Says whether both are needed at some tick."""
        if self.first > other.last or other.first > self.last:
            return False
        return not (self.live and other.live) or bool(self.live & other.live)

    @property
    def times(self) -> list[tuple[int, int]]:
        """The ticks at which the bytes are needed, each row of them as its first one and the one after it."""
        if not self.live:
            return [(self.first, self.last + 1)]
        return [(t, t + 1) for t in range(self.first, self.last + 1) if self.live >> t & 1]


def _collide(one: Block, other: Block, distance: int, works: Iterable[Block]) -> bool:
    """Whether two blocks lie over one another, so far apart, while both are needed, but for the time of a workspace that holds them: what
    is read and made there may share its bytes, as who works there wants it."""
    if not -other.size < distance < one.size or not one.meets(other):
        return False
    begin, end = max(one.first, other.first), min(one.last, other.last)
    inside = (work for work in works if {one, other} <= {work, *work.held})
    return not any(work.first <= begin and end <= work.last for work in inside)


def live_bytes(blocks: Sequence[Block], ticks: int) -> list[int]:
    """Gives the bytes that are needed at each tick. What follows something saves as much as it can."""
    # what comes at a tick, less what goes: what lives long is no more work than what lives shortly
    changes = [0] * (max(ticks, 1) + 1)
    for block in blocks:
        for begin, end in block.times:
            changes[min(begin, len(changes) - 1)] += block.size
            changes[min(end, len(changes) - 1)] -= block.size
    live = list(accumulate(changes[:-1]))
    for block in blocks:
        if block.followers:
            follower = max(block.followers, key=lambda y: _shared(block, y))
            _save(live, block, follower, _shared(block, follower))
    return live


def least_bytes(blocks: Sequence[Block], ticks: int) -> int:
    """Gives the size below which no plan of them is looked for: what is live at once, where something follows something less what lies over
    other blocks, too."""
    live = live_bytes(blocks, ticks)
    for block in blocks if any(block.followers or block.live for block in blocks) else ():
        if block.over is not None:
            _save(live, block, block.over, min(block.size, block.over.size))
    for block in blocks:
        for held in block.held:
            _save(live, block, held, min(held.size, block.size - block.bound[held] + block.bound[block]))
    return max(live, default=0)


def _save(live: list[int], one: Block, other: Block, saved: int) -> None:
    """Takes off what two blocks save while both are needed."""
    both = one.live & other.live
    for i in range(max(one.first, other.first), min(one.last, other.last, len(live) - 1) + 1):
        if not (one.live and other.live) or both >> i & 1:
            live[i] -= saved


def _shared(block: Block, follower: Block) -> int:
    """The bytes that a block and one that follows it save together."""
    lag = follower.lags[block]
    return max(block.size + follower.size - max(lag + block.size, follower.size), 0)


def put_in_place(blocks: Sequence[Block], floor: int) -> int:
    """Gives every block an offset; the size of the best plan found."""
    orders = (
        lambda b: (-b.size, b.first),
        lambda b: (-(b.last - b.first), -b.size),
        lambda b: (b.first, -b.size),
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (-b.last, -b.size),
    )
    _find_rivals(blocks)
    best: int | None = None
    best_offsets: list[int] = []
    for order in _orders(blocks, [sorted(blocks, key=key) for key in orders]):
        size = _first_fit(order, best)
        if size is not None:
            best, best_offsets = size, [b.offset for b in blocks]
        if best is not None and best <= floor:
            break
    for block, offset in zip(blocks, best_offsets, strict=True):
        block.offset = offset
    return best or 0


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
        rivals[number] += meeting
        live.append(number)
    for block, numbers in zip(blocks, rivals, strict=True):
        block.rivals = [blocks[n] for n in sorted(numbers)]


def _orders(blocks: Sequence[Block], fixed: list[list[Block]]) -> Iterable[list[Block]]:
    yield from fixed
    shuffler = random.Random(0)
    meetings = sum(len(block.rivals) for block in blocks) + 1
    for _ in range(min(SHUFFLES, MOST_MEETINGS // meetings)):
        order = list(fixed[0])
        for _ in range(3):
            i, j = shuffler.randrange(len(order)), shuffler.randrange(len(order))
            order.insert(i, order.pop(j))
        yield order


def _first_fit(order: Sequence[Block], best: int | None) -> int | None:
    """Places the blocks one after another; the size of the plan, or None as soon as it is not smaller than the best one."""
    for block in order:
        block.offset = -1
    size = 0
    for block in order:
        if block.offset < 0:
            size = max(size, _put_bound(block.bound) if block.bound else _put(block))
        if best is not None and size >= best:
            return None
    return size


def _put(block: Block) -> int:
    """Gives a block its place; where it ends."""
    rivals = sorted((b for b in block.rivals if b.offset >= 0), key=_offset)
    at = _overlaid(block, rivals)
    block.offset = at if at >= 0 else _lowest_gap(block, rivals)
    return block.offset + block.size


def _put_bound(bound: Mapping[Block, int]) -> int:
    """Gives blocks that are bound to one another the lowest places where none of them lies over a rival; where the last one ends."""
    taken = sorted(
        (rival.offset - at - block.size, rival.offset + rival.size - at)
        for block, at in bound.items()
        for rival in block.rivals
        if rival.offset >= 0
    )
    first = 0
    for begin, end in taken:
        if begin < first < end:
            first = end
    for block, at in bound.items():
        block.offset = first + at
    return max(block.offset + block.size for block in bound)


def _overlaid(block: Block, rivals: Sequence[Block]) -> int:
    """The offset of the operand that the block may overwrite, or that of the result that may overwrite the block; -1 if
    neither is placed or something else is in the way."""
    for partner in rivals:
        if partner is block.over or partner.over is block:
            at, others = partner.offset, [b for b in rivals if b is not partner]
            if all(b.offset + b.size <= at or at + block.size <= b.offset for b in others):
                return at
    return -1


_offset = attrgetter("offset")


def _lowest_gap(block: Block, rivals: Sequence[Block]) -> int:
    at = block.room
    for begin, end in _taken(block, rivals):
        if at + block.size <= begin:
            return at
        at = max(at, end)
    return at


def _taken(block: Block, rivals: Sequence[Block]) -> Iterable[tuple[int, int]]:
    """Where a block may not be. What follows another may begin in time before it; what is followed, that far behind."""
    if not block.lags and not block.followers:
        return ((b.offset, b.offset + b.size) for b in rivals)
    return sorted(_between(block, rival) for rival in rivals)


def _between(block: Block, rival: Block) -> tuple[int, int]:
    begin, end = rival.offset, rival.offset + rival.size
    if rival in block.lags:
        return max(begin, begin - block.lags[rival] + block.size), end
    if block in rival.lags:
        return begin, min(end, begin + rival.lags[block])
    return begin, end
