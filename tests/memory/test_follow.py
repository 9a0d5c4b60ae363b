# SPDX-License-Identifier: Apache-2.0
"""Results that follow what they are made from, some bytes before it: in chains, beside others, and never closer."""

from __future__ import annotations

import itertools
import random

import pytest

from pillion.memory.blocks import Block, least_bytes, put_in_place


def apart(one: Block, other: Block) -> bool:
    return one.offset + one.size <= other.offset or other.offset + other.size <= one.offset


def sound(blocks: list[Block]) -> bool:
    """Blocks that are needed at one time lie apart, or one of them follows the other at its distance."""
    pairs = [(a, b) for i, a in enumerate(blocks) for b in blocks[:i] if a.meets(b)]
    follows = [
        apart(a, b)
        or (b in a.lags and a.offset + a.lags[b] <= b.offset)
        or (a in b.lags and b.offset + b.lags[a] <= a.offset)
        for a, b in pairs
    ]
    return all(follows) and all(block.offset >= 0 for block in blocks)


@pytest.mark.parametrize(("lag", "size"), [(0, 1600), (160, 1760), (800, 2400), (1600, 2400)])
def test_a_result_takes_the_place_of_what_is_used_up(lag: int, size: int) -> None:
    x, y = Block(1600, 0, 5), Block(800, 3, 9)
    y.may_follow(x, lag)
    assert put_in_place([x, y], 0) == size
    assert sound([x, y])


def test_one_follows_another_that_follows() -> None:
    """Three tensors of one size, each made from the one before: room for one, and for the distances."""
    blocks = [Block(1600, 0, 3), Block(1600, 2, 6), Block(1600, 5, 9)]
    for before, after in itertools.pairwise(blocks):
        after.may_follow(before, 160)
    assert put_in_place(blocks, 0) == 1600 + 320
    assert sound(blocks)


def test_what_is_live_at_once_counts_what_is_shared() -> None:
    x, y, z = Block(1600, 0, 5), Block(800, 3, 9), Block(320, 4, 4)
    y.may_follow(x, 160)
    assert least_bytes([x, y, z], 10) == 1600 + 160 + 320
    assert put_in_place([x, y, z], 0) == 1600 + 160 + 320


@pytest.mark.parametrize("seed", range(40))
def test_random_ones_keep_their_distance(seed: int) -> None:
    dice = random.Random(seed)
    blocks = [Block(16 * dice.randint(1, 40), t, t + dice.randint(1, 4)) for t in range(dice.randint(3, 14))]
    for before, after in itertools.pairwise(blocks):
        if dice.random() < 0.6:
            after.may_follow(before, 16 * dice.randint(0, 30))
    size = put_in_place(blocks, least_bytes(blocks, 20))
    assert sound(blocks)
    assert size == max(block.offset + block.size for block in blocks)
