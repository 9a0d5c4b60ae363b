# SPDX-License-Identifier: Apache-2.0
"""Places blocks in the arena: first fit in several orders, then in random variations of the best ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pillion.memory.live_blocks import LiveBlock, find_interference

SHUFFLES = 300
"""The maximum number of tries after the fixed orders."""
MOST_MEETINGS = 4_000_000
"""The maximum number of pairs of blocks that are compared in all random tries: a few seconds."""
WORSE, HOW_OFTEN = 1.03, 0.1
"""The size of a plan to vary relative to the best plan, at most, and the probability of such a choice in the second
half of the tries."""
NO_PLAN = 1 << 60
"""The size before a plan is found."""
STARTS = 5
"""The number of orders that are varied."""


class PlanningEffort(Enum):
    """The number of tries, in multiples of the tries for plans of whole tensors. Blocks with changing liveness
    leave more to find."""

    ORDERS = 0
    """Fixed orders only."""
    USUAL = 2
    MOST = 16
    """For the plan of the final program."""


def place_blocks(
    blocks: Sequence[LiveBlock], floor: int, effort: PlanningEffort = PlanningEffort.USUAL
) -> int:
    """Gives every block an offset, and returns the size of the best plan found."""
    orders: tuple[Callable[[LiveBlock], tuple[int, int]], ...] = (
        lambda b: (-b.size, b.first),
        lambda b: (-(b.last - b.first), -b.size),
        lambda b: (b.first, -b.size),
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (-b.last, -b.size),
    )
    find_interference(blocks)
    search = _FirstFitSearch(blocks, floor)
    numbered = list(enumerate(blocks))
    fixed = [[n for n, _ in sorted(numbered, key=lambda pair: key(pair[1]))] for key in orders]
    for order in fixed:
        search.take(order)
    most = MOST_MEETINGS // (sum(len(block.interfering) for block in blocks) + 1)
    if any(block.extent is not None for block in blocks):
        search.climb(fixed, min(SHUFFLES * effort.value, most * PlanningEffort.USUAL.value))
    elif effort is not PlanningEffort.ORDERS:
        search.try_shuffled_orders(fixed[0], min(SHUFFLES, most))
    for block, offset in zip(blocks, search.best.offsets, strict=True):
        block.offset = offset
    return search.best.size


@dataclass(frozen=True)
class _PlacedOrder:
    """A plan, and the order in which its blocks were placed."""

    size: int
    order: list[int]
    offsets: list[int]
    has_space: bool = True


class _FirstFitSearch:
    """The best plan found so far."""

    def __init__(self, blocks: Sequence[LiveBlock], floor: int) -> None:
        self.floor = floor
        numbers = {block: number for number, block in enumerate(blocks)}
        self.blocks = [
            _NumberedBlock(
                block.size,
                block.space_before,
                [
                    (numbers[r], *block.least_distances.get(r, (block.size, r.size)))
                    for r in block.interfering
                ],
                {numbers[r] for r in block.interfering if r is block.overlaid or r.overlaid is block},
                {numbers[partner]: at for partner, at in block.bound.items()},
            )
            for block in blocks
        ]
        self.best = _PlacedOrder(NO_PLAN, [], [])

    @property
    def is_done(self) -> bool:
        """Whether the plan cannot or need not be improved."""
        return self.best.size <= self.floor

    def take(self, order: list[int]) -> None:
        """Places the blocks in an order and keeps the plan if it is the best."""
        placed = None if self.is_done else self._first_fit(order, self.best.size)
        self.best = placed or self.best

    def try_shuffled_orders(self, order: Sequence[int], tries: int) -> None:
        """Tries small variations of an order."""
        dice = random.Random(0)
        for _ in range(0 if self.is_done else tries):
            self.take(_shuffle_order(order, 3, dice))

    def climb(self, orders: Sequence[list[int]], tries: int) -> None:
        """Varies several orders repeatedly: blocks that determine the size of the plan are placed earlier."""
        if self.is_done or not tries:
            return
        easy = self._always_fitting_blocks()
        hard = [[number for number in order if number not in easy] for order in orders]
        choices_of_space = [True, False] if any(block.space_before for block in self.blocks) else [True]
        placed = [
            self._first_fit([*order, *easy], None, has_space)
            for has_space in choices_of_space
            for order in hard
        ]
        starts = sorted(
            (candidate for candidate in placed if candidate), key=lambda candidate: candidate.size
        )[:STARTS]
        for start in starts:
            self._hill_climb(start, len(easy), tries // len(starts))

    def _hill_climb(self, now: _PlacedOrder, easy: int, tries: int) -> None:
        dice = random.Random(0)
        chain = self._critical_chain(now)
        for number in range(tries):
            if self.is_done:
                return
            order, rest = now.order[: len(now.order) - easy], now.order[len(now.order) - easy :]
            _move_block_in_order(order, chain, dice)
            is_bold = 2 * number > tries and dice.random() < HOW_OFTEN
            bound = int(WORSE * self.best.size) if is_bold else now.size + 1
            placed = self._first_fit(order + rest, bound, now.has_space)
            if placed:
                now, chain = placed, self._critical_chain(placed)
                self.best = placed if placed.size < self.best.size else self.best

    def _always_fitting_blocks(self) -> list[int]:
        """Returns the blocks that fit below the floor wherever the other blocks lie. Removing one may make another
        fit."""
        left = {n: block for n, block in enumerate(self.blocks) if not block.bound and not block.space_before}
        removed: list[int] = []
        away: set[int] = set()
        while True:
            more = [
                n
                for n, block in left.items()
                if sum(before + behind for rival, before, behind in block.interfering if rival not in away)
                <= self.floor - block.size
            ]
            if not more:
                return removed[::-1]
            removed += more
            away.update(more)
            left = {n: block for n, block in left.items() if n not in away}

    def _critical_chain(self, placed: _PlacedOrder) -> list[int]:
        """Returns the block that ends last and the chain of blocks below it that determines its offset."""
        offsets = placed.offsets
        number = max(range(len(offsets)), key=lambda n: offsets[n] + self.blocks[n].size)
        chain = [number]
        while offsets[number]:
            below = (
                rival
                for rival, _, behind in self.blocks[number].interfering
                if offsets[rival] + behind == offsets[number] and rival not in chain
            )
            number = next(below, -1)
            if number < 0:
                break
            chain.append(number)
        return chain

    def _first_fit(self, order: list[int], bound: int | None, has_space: bool = True) -> _PlacedOrder | None:
        """Places blocks in an order; returns None as soon as the plan is not smaller than a bound."""
        offsets = [-1] * len(self.blocks)
        size = 0
        for number in order:
            if offsets[number] >= 0:
                continue
            block = self.blocks[number]
            if block.bound:
                end = self._place_bound_blocks(block.bound, offsets)
            else:
                offsets[number] = at = _find_offset(block, offsets, has_space)
                end = at + block.size
            if bound is not None and end >= bound:
                return None
            size = max(size, end)
        return _PlacedOrder(size, order, offsets, has_space)

    def _place_bound_blocks(self, bound: Mapping[int, int], offsets: list[int]) -> int:
        """Places blocks with fixed distances at the lowest free offset; returns where the last one ends."""
        taken = sorted(
            (placed - before - at, placed + behind - at)
            for number, at in bound.items()
            for rival, before, behind in self.blocks[number].interfering
            if (placed := offsets[rival]) >= 0
        )
        first = 0
        for begin, end in taken:
            if begin < first < end:
                first = end
        for number, at in bound.items():
            offsets[number] = first + at
        return max(offsets[number] + self.blocks[number].size for number in bound)


@dataclass(frozen=True)
class _NumberedBlock:
    """A block, with references to other blocks by number."""

    size: int
    space_before: int
    interfering: list[tuple[int, int, int]]
    """For each interfering block: its number, the least distance to it if it lies above, and if it lies below."""
    partners: set[int]
    """The numbers of blocks that may share its offset."""
    bound: dict[int, int]
    """The numbers of blocks at fixed distances, itself included, with each distance from the first."""


def _find_offset(block: _NumberedBlock, offsets: Sequence[int], has_space: bool) -> int:
    """Returns the offset of a block among blocks that have one."""
    taken = sorted(
        [
            (at - before + block.size, at + behind, rival)
            for rival, before, behind in block.interfering
            if (at := offsets[rival]) >= 0
        ]
    )
    at = _overlay_offset(block, taken, offsets) if block.partners else -1
    return at if at >= 0 else _lowest_free_offset(block, taken, block.space_before if has_space else 0)


def _move_block_in_order(order: list[int], chain: Sequence[int], dice: random.Random) -> None:
    """Moves a block of the chain in the order, mostly to the front; sometimes another block."""
    number = dice.choice(chain)
    at = order.index(number) if number in order else dice.randrange(len(order))
    number = order.pop(at)
    order.insert(dice.randint(0, at) if dice.random() < 0.7 else dice.randint(0, len(order)), number)
    if dice.random() < 0.3:
        order.insert(dice.randrange(len(order)), order.pop(dice.randrange(len(order))))


def _shuffle_order(order: Sequence[int], moves: int, dice: random.Random) -> list[int]:
    """Returns an order with some blocks moved."""
    shuffled = list(order)
    for _ in range(moves):
        i, j = dice.randrange(len(shuffled)), dice.randrange(len(shuffled))
        shuffled.insert(i, shuffled.pop(j))
    return shuffled


def _overlay_offset(
    block: _NumberedBlock, taken: Sequence[tuple[int, int, int]], offsets: Sequence[int]
) -> int:
    """Returns the offset of the operand that the block may overwrite, or of the result that may overwrite it; -1
    if none is placed or another block is in the way."""
    for partner in sorted(block.partners, key=offsets.__getitem__):
        at = offsets[partner]
        if at >= 0 and all(
            end <= at or at + block.size <= begin for begin, end, owner in taken if owner != partner
        ):
            return at
    return -1


def _lowest_free_offset(block: _NumberedBlock, taken: Sequence[tuple[int, int, int]], at: int) -> int:
    """Returns the lowest free offset from `at` on."""
    for begin, end, _ in taken:
        if at + block.size <= begin:
            return at
        at = max(at, end)
    return at
