# SPDX-License-Identifier: Apache-2.0
"""Turns repetitions at evenly spaced locations into loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pillion.emitters.c.actions import MovingLocation, ProgramItem, RolledLoop

LONGEST_PERIOD = 400
"""The largest number of items in a loop body."""


@dataclass(frozen=True)
class _Rollable:
    """An item, with a key that is equal for items with the same effect at other offsets, and its offsets."""

    item: ProgramItem
    key: object
    offsets: tuple[int, ...]


def roll_repetitions(items: Iterable[ProgramItem]) -> list[ProgramItem]:
    """Turns repetitions into loops, short ones first, so that they become parts of longer ones."""
    rolled = [
        _Rollable(i, (i.what, [p.kind for p in i.places]), tuple(p.start.offset for p in i.places))
        for i in items
    ]
    period = 1
    while period <= min(len(rolled) // 2, LONGEST_PERIOD):
        shorter = _roll_with_period(rolled, period)
        period = 1 if len(shorter) < len(rolled) else period + 1
        rolled = shorter
    return [one.item for one in rolled]


def _roll_with_period(items: Sequence[_Rollable], period: int) -> list[_Rollable]:
    rolled: list[_Rollable] = []
    at = 0
    while at < len(items):
        count, strides = _count_repetitions(items, at, period)
        rolled.append(_roll_loop(items[at : at + period], count, strides) if count > 1 else items[at])
        at += count * period if count > 1 else 1
    return rolled


def _roll_loop(body: Sequence[_Rollable], count: int, strides: tuple[int, ...]) -> _Rollable:
    remaining = iter(strides)
    inside = tuple(_inside_loop(one.item, remaining) for one in body)
    key = (count, strides, [one.key for one in body])
    offsets = tuple(offset for one in body for offset in one.offsets)
    return _Rollable(ProgramItem(RolledLoop(count, inside)), key, offsets)


def _inside_loop(item: ProgramItem, strides: Iterator[int]) -> ProgramItem:
    """Returns an item whose locations advance by the next strides in one more enclosing loop."""
    if isinstance(item.what, RolledLoop):
        body = tuple(_inside_loop(part, strides) for part in item.what.body)
        return ProgramItem(RolledLoop(item.what.count, body))
    moved = (MovingLocation(p.start, (next(strides), *p.strides)) for p in item.places)
    return ProgramItem(item.what, tuple(moved))


def _count_repetitions(items: Sequence[_Rollable], at: int, period: int) -> tuple[int, tuple[int, ...]]:
    """Returns how often the items from `at` on repeat, and the stride of each of their locations."""
    strides: list[int] = []
    for i in range(at, at + period):
        moved = _location_strides(items, i, period)
        if moved is None or min(moved, default=0) < 0:
            return 1, ()
        strides += moved
    count, expected = 2, [_location_strides(items, i, period) for i in range(at, at + period)]
    while all(
        _location_strides(items, at + (count - 1) * period + i, period) == expected[i] for i in range(period)
    ):
        count += 1
    return count, tuple(strides)


def _location_strides(items: Sequence[_Rollable], i: int, period: int) -> tuple[int, ...] | None:
    """Returns the strides between an item and the one a period later; None if they differ otherwise."""
    if i + period >= len(items) or items[i].key != items[i + period].key:
        return None
    return tuple(b - a for a, b in zip(items[i].offsets, items[i + period].offsets, strict=True))
