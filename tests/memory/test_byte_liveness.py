# SPDX-License-Identifier: Apache-2.0
"""Blocks of which now more, now fewer bytes are in use: results follow what they are made from, and what is free is room for others."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from pillion.memory.byte_liveness import (
    NOWHERE,
    LiveExtent,
    extent_at_ticks,
    extent_from_changes,
    extent_of_unread_bytes,
    extent_of_written_bytes,
    least_distance,
)
from pillion.memory.first_fit import place_blocks
from pillion.memory.live_blocks import LiveBlock, least_bytes


def used_up(size: int, first: int, last: int, step: int) -> LiveBlock:
    """A block that is there as a whole, and of which at each tick `step` more bytes are not needed any more."""
    ticks = last - first + 1
    low = np.minimum(np.arange(ticks) * step, size - 1)
    return LiveBlock(size, first, last, extent=LiveExtent(low, np.full(ticks, size)))


def made(size: int, first: int, last: int, step: int) -> LiveBlock:
    """A block of which at each tick `step` more bytes are made."""
    ticks = last - first + 1
    high = np.minimum(np.arange(1, ticks + 1) * step, size)
    return LiveBlock(size, first, last, extent=LiveExtent(np.zeros(ticks, np.int64), high))


def sound(blocks: list[LiveBlock]) -> bool:
    """No byte is in use by two blocks at one tick."""
    for tick in range(max(b.last for b in blocks) + 1):
        there = [b for b in blocks if b.first <= tick <= b.last]
        spans = sorted(
            (b.offset + low, b.offset + high) for b in there for low, high in [b.used_at(tick)] if low < high
        )
        if any(end > begin for (_, end), (begin, _) in itertools.pairwise(spans)):
            return False
    return all(block.offset >= 0 and block.offset % 16 == 0 for block in blocks)


@pytest.mark.parametrize(("step", "lag"), [(160, 160), (320, 480), (800, 800)])
def test_results_overwrite_dead_operands(step: int, lag: int) -> None:
    """The first rows of the result need room before there is anything that is used up."""
    x, y = used_up(1600, 0, 9, 160), made(800, 0, 9, step)
    x.space_before = lag
    assert y.least_distance_to(x) == lag
    assert place_blocks([x, y], 0) == 1600 + lag
    assert sound([x, y])


def test_bytes_not_yet_written_are_free() -> None:
    """A buffer is gone before the upper half of a result is made."""
    y, brief = made(1600, 0, 9, 160), LiveBlock(800, 0, 4)
    assert place_blocks([y, brief], 0) == 1600
    assert sound([y, brief])


def test_bytes_read_for_the_last_time_are_free() -> None:
    x, late = used_up(1600, 0, 9, 160), LiveBlock(800, 5, 9)
    assert place_blocks([x, late], 0) == 1600
    assert sound([x, late])


def test_the_lower_bound_counts_live_bytes() -> None:
    x, y = used_up(1600, 0, 9, 160), made(1600, 0, 9, 160)
    assert least_bytes([x, y], 10) == 1760
    assert least_bytes([x, LiveBlock(320, 2, 3)], 10) == 1600


def test_extents_of_changes_and_of_ticks() -> None:
    extent = extent_from_changes([(1, 0, 32), (3, 16, 32), (4, 32, 32), (6, 0, 16)], 8)
    assert extent.used.tolist() == [0, 32, 32, 16, 0, 0, 16, 16]
    assert (extent.first, extent.last) == (1, 7)
    assert extent_at_ticks({2: 48, 5: 32, 6: 0}, 7).used.tolist() == [0, 0, 48, 0, 0, 32, 0]


def test_extents_of_unread_and_written_bytes() -> None:
    unread = extent_of_unread_bytes([(0, 0), (2, 32), (2, 16), (4, 48)], 64, 7)
    assert unread.low.tolist() == [0, 16, 16, 48, 48, NOWHERE, NOWHERE]
    assert unread.high.tolist() == [64] * 5 + [-NOWHERE] * 2
    written = extent_of_written_bytes([(1, 16), (3, 48), (3, 32)], 5)
    assert written.low.tolist() == [NOWHERE, 0, 0, 0, 0]
    assert written.high.tolist() == [-NOWHERE, 16, 16, 48, 48]


def test_extents_that_are_never_live_at_once_do_not_interfere() -> None:
    one, other = extent_at_ticks({0: 64, 2: 64}, 4), extent_at_ticks({1: 64, 3: 64}, 4)
    assert least_distance(64, one, other) is None
    assert least_distance(64, one, None) == 64


@pytest.mark.parametrize("seed", range(40))
def test_random_ones_share_no_byte_at_any_tick(seed: int) -> None:
    dice = random.Random(seed)
    blocks = []
    for number in range(dice.randint(3, 14)):
        first, size = dice.randint(0, 9), 16 * dice.randint(1, 40)
        last = first + dice.randint(0, 9)
        kind = dice.choice([used_up, made, None])
        blocks.append(kind(size, first, last, dice.randint(1, 200)) if kind else LiveBlock(size, first, last))
        if number and dice.random() < 0.3:
            blocks[-1].space_before = 16 * dice.randint(0, 20)
    size = place_blocks(blocks, least_bytes(blocks, 20))
    assert sound(blocks)
    assert size == max(block.offset + block.size for block in blocks)
    assert size >= least_bytes(blocks, 20)
