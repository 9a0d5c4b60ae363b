# SPDX-License-Identifier: Apache-2.0
"""Where blocks are put of which now more, now less is in use: nothing lies over anything, and as low as any order puts them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from pillion.memory.byte_liveness import LiveExtent
from pillion.memory.first_fit import PlanningEffort, place_blocks
from pillion.memory.live_blocks import LiveBlock, least_bytes

TICKS = 12


def moving(dice: random.Random) -> LiveBlock:
    """A block that is filled, is there for a while, or is used up."""
    first = dice.randrange(TICKS - 2)
    last = dice.randrange(first + 1, TICKS)
    size, ticks = 16 * dice.randint(2, 40), last - first + 1
    part = np.array([16 + (size - 16) * t // max(ticks - 1, 1) // 16 * 16 for t in range(ticks)], np.int64)
    part[-1] = size
    whole = np.full(ticks, size, np.int64)
    forms = (LiveExtent(0 * whole, part), LiveExtent(0 * whole, whole), LiveExtent(size - part[::-1], whole))
    return LiveBlock(size, first, last, extent=dice.choice(forms))


def is_sound(blocks: Sequence[LiveBlock]) -> bool:
    """Whether no byte is in use by two at one tick."""
    for tick in range(TICKS):
        spans = sorted(
            (b.offset + low, b.offset + high)
            for b in blocks
            if b.first <= tick <= b.last
            for low, high in [b.used_at(tick)]
        )
        if any(end > begin for (_, end), (begin, _) in itertools.pairwise(spans)):
            return False
    return True


def lowest(blocks: Sequence[LiveBlock], order: Sequence[int]) -> int:
    """The size of the plan in which blocks are put at their lowest places, one after another."""
    offsets: dict[int, int] = {}
    for number in order:
        block = blocks[number]
        meeting = [n for n in offsets if blocks[n].overlaps(block)]
        behind = {n: offsets[n] + (blocks[n].least_distance_to(block) or 0) for n in meeting}
        before = {n: offsets[n] - (block.least_distance_to(blocks[n]) or 0) for n in meeting}
        places = sorted({0, *(at for at in behind.values() if at > 0)})
        offsets[number] = next(
            at for at in places if all(at >= behind[n] or at <= before[n] for n in meeting)
        )
    return max(offsets[n] + blocks[n].size for n in order)


@pytest.mark.turns(5)
@pytest.mark.parametrize("seed", range(12))
def test_no_order_of_few_blocks_is_better(seed: int) -> None:
    dice = random.Random(seed)
    blocks = [moving(dice) for _ in range(6)]
    size = place_blocks(blocks, least_bytes(blocks, TICKS), PlanningEffort.MOST)
    assert is_sound(blocks)
    assert size == max(b.offset + b.size for b in blocks)
    assert size <= min(lowest(blocks, order) for order in itertools.permutations(range(6)))


@pytest.mark.parametrize("effort", PlanningEffort)
def test_small_blocks_overlap_no_large_ones(effort: PlanningEffort) -> None:
    """Those that meet few others are put last, where the others left room."""
    dice = random.Random(7)
    small = [LiveBlock(16 * dice.randint(1, 3), tick, tick + 1) for tick in range(TICKS - 1)]
    blocks = [b for pair in zip(small, [moving(dice) for _ in small], strict=True) for b in pair]
    floor = least_bytes(blocks, TICKS)
    assert place_blocks(blocks, floor, effort) >= floor
    assert is_sound(blocks)


def test_more_effort_finds_no_larger_plan() -> None:
    """The sums are over blocks for which the orders that are tried first are not enough."""
    sizes = dict.fromkeys(PlanningEffort, 0)
    for seed in range(8):
        for effort in PlanningEffort:
            dice = random.Random(seed)
            blocks = [moving(dice) for _ in range(14)]
            sizes[effort] += place_blocks(blocks, least_bytes(blocks, TICKS), effort)
    assert sizes[PlanningEffort.MOST] <= sizes[PlanningEffort.USUAL] < sizes[PlanningEffort.ORDERS]


def test_placing_no_blocks_takes_no_memory() -> None:
    assert place_blocks([], 0, PlanningEffort.MOST) == 0


def test_one_block_that_is_used_up_is_enough_for_a_thorough_search() -> None:
    """Whole blocks alone get fewer tries, with which this plan is not found."""
    dice = random.Random(4)
    used_up, *others = [moving(dice) for _ in range(8)]
    blocks = [used_up, *(LiveBlock(b.size, b.first, b.last) for b in others)]
    floor = least_bytes(blocks, TICKS)
    assert place_blocks(blocks, floor) == floor
