# SPDX-License-Identifier: Apache-2.0
"""What a program does, in order, as short text: what repeats at places that move on evenly becomes a loop, loops in loops included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pillion.ir.types import Value
from pillion.memory import Spot

LONGEST_PERIOD = 400
"""Items of the longest loop body that is looked for."""


@dataclass(frozen=True)
class Fire:
    """A run of one variant of a step; its places are those of the operands and results."""

    step: int
    variant: int = 0


@dataclass(frozen=True)
class MoveRows:
    """A move of so many bytes; its places are whereto and wherefrom."""

    bytes: int


@dataclass(frozen=True)
class TakeRows:
    """So many rows of the caller are taken; its place is whereto, unless they are not kept."""

    rows: int
    are_kept: bool = True


@dataclass(frozen=True)
class Load:
    """A copy of so many bytes of a constant; its place is whereto."""

    bytes: int
    value: Value


@dataclass(frozen=True)
class Loop:
    """A body that runs `count` times; its places are those of the first time, which move on by `strides`."""

    count: int
    body: tuple[Part, ...]
    strides: tuple[int, ...]

    @property
    def waits(self) -> bool:
        """Whether rows of the caller are taken in it, for which it is left and come back to."""
        return any(waits(part.what) for part in self.body)


@dataclass(frozen=True)
class Run:
    """What stands elsewhere as a passage (passages.py) is done; its places are those that are handed over."""

    passage: int
    waits: bool = False
    """Whether rows of the caller are taken in it."""


def waits(what: What) -> bool:
    """Whether rows of the caller are taken."""
    return isinstance(what, TakeRows) or (isinstance(what, (Loop, Run)) and what.waits)


@dataclass(frozen=True)
class FireAny:
    """A run of one of several variants of a step that take the same; which one is the first of its places."""

    first: Fire
    """A run of the first of these variants."""


What = Fire | FireAny | MoveRows | TakeRows | Load | Loop | Run


@dataclass(frozen=True)
class Form:
    """A variant, where it stands in the place of a place."""

    variant: int
    kind: Fire
    """A run of the first variant that takes the same."""
    offset: int = 0
    area: str = "form"


@dataclass(frozen=True)
class RowNumber:
    """The number of a row, where it stands in the place of a place: it moves on in loops as places do."""

    offset: int
    area: str = "row"


Kind = Fire | Literal["row"] | None
"""What stands in the place of a place: a variant, which a run of the first one that takes the same stands for, the number of a row, or
nothing else."""


@dataclass(frozen=True)
class Given:
    """A place inside a passage: so many bytes behind one that is handed over, a variant that is, or the number of a row."""

    number: int
    offset: int
    kind: Kind = None


Where = Spot | Given | Form | RowNumber


def kind_of(place: Where) -> Kind:
    """Gives what stands in the place of a place."""
    if isinstance(place, RowNumber):
        return "row"
    return None if isinstance(place, Spot) else place.kind


@dataclass(frozen=True)
class Part:
    """Something in the body of a loop, and how many of the loop's places are its own."""

    what: What
    places: int


@dataclass(frozen=True)
class Item:
    """Something that a program does at certain places of its memory."""

    what: What
    places: tuple[Where, ...]


def root(place: Where) -> str | int:
    """Gives what a place is counted from."""
    return place.number if isinstance(place, Given) else place.area


def roll(items: Iterable[Item]) -> list[Item]:
    """Turns repetitions into loops: short ones first, so that long ones find them as parts of theirs."""
    rolled = list(items)
    period = 1
    while period <= min(len(rolled) // 2, LONGEST_PERIOD):
        shorter = _with_period(rolled, period)
        period = 1 if len(shorter) < len(rolled) else period + 1
        rolled = shorter
    return rolled


def _with_period(items: Sequence[Item], period: int) -> list[Item]:
    rolled: list[Item] = []
    at = 0
    while at < len(items):
        count, strides = _repetitions(items, at, period)
        if count > 1:
            body = items[at : at + period]
            parts = tuple(Part(item.what, len(item.places)) for item in body)
            places = tuple(place for item in body for place in item.places)
            rolled.append(Item(Loop(count, parts, strides), places))
            at += count * period
        else:
            rolled.append(items[at])
            at += 1
    return rolled


def _repetitions(items: Sequence[Item], at: int, period: int) -> tuple[int, tuple[int, ...]]:
    """How often the items from `at` on follow one another, and by how much each of their places moves on."""
    strides: list[int] = []
    for i in range(at, at + period):
        moved = _stride(items, i, period)
        if moved is None or min(moved, default=0) < 0:
            return 1, ()
        strides += moved
    count, expected = 2, [_stride(items, i, period) for i in range(at, at + period)]
    while all(_stride(items, at + (count - 1) * period + i, period) == expected[i] for i in range(period)):
        count += 1
    return count, tuple(strides)


def _stride(items: Sequence[Item], i: int, period: int) -> tuple[int, ...] | None:
    """By how much the places of the same item a period later have moved on; None if there is another one."""
    if i + period >= len(items):
        return None
    one, other = items[i], items[i + period]
    if one.what != other.what or list(map(root, one.places)) != list(map(root, other.places)):
        return None
    return tuple(b.offset - a.offset for a, b in zip(one.places, other.places, strict=True))
