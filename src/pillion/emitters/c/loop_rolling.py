# SPDX-License-Identifier: Apache-2.0
"""A program as a list of items (kernel calls and moves), in which repetitions at evenly spaced locations become
loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pillion.ir.types import Value
from pillion.memory import MemoryLocation

LONGEST_PERIOD = 400
"""The largest number of items in a loop body."""


@dataclass(frozen=True)
class RunStep:
    """Runs one variant of a step; its locations are those of the operands and results."""

    step: int
    variant: int = 0


@dataclass(frozen=True)
class MoveRows:
    """Copies `bytes` bytes; its locations are the destination and the source."""

    bytes: int


@dataclass(frozen=True)
class TakeRows:
    """Takes rows from the caller; its location is the destination, or none if the rows are skipped."""

    rows: int
    are_kept: bool = True


@dataclass(frozen=True)
class LoadConstant:
    """Copies a constant; its location is the destination."""

    bytes: int
    value: Value


@dataclass(frozen=True)
class RolledLoop:
    """Runs a body `count` times; its locations are those of the first iteration, which advance by `strides`."""

    count: int
    body: tuple[LoopPart, ...]
    strides: tuple[int, ...]

    @property
    def waits(self) -> bool:
        """Whether it takes rows from the caller, so that execution may leave it and resume."""
        return any(waits(part.what) for part in self.body)


@dataclass(frozen=True)
class CallSubroutine:
    """Calls an outlined subroutine (outlining.py); its locations are the arguments."""

    passage: int
    waits: bool = False
    """Whether the subroutine takes rows from the caller."""


def waits(what: Action) -> bool:
    """Whether the item takes rows from the caller."""
    return isinstance(what, TakeRows) or (isinstance(what, (RolledLoop, CallSubroutine)) and what.waits)


@dataclass(frozen=True)
class RunVariant:
    """Runs one of several variants of a step with the same signature; its first location selects the variant."""

    first: RunStep
    """The first of these variants."""


Action = RunStep | RunVariant | MoveRows | TakeRows | LoadConstant | RolledLoop | CallSubroutine


@dataclass(frozen=True)
class VariantSelector:
    """A variant as a pseudo-location, the selector of `FireAny`."""

    variant: int
    kind: RunStep
    """The first variant with the same signature."""
    offset: int = 0
    area: str = "form"


@dataclass(frozen=True)
class RowIndex:
    """A row index as a pseudo-location: it advances in loops as addresses do."""

    offset: int
    area: str = "row"


LocationType = RunStep | Literal["row"] | None
"""The type of a location: the first variant with the same signature, a row index, or None for a memory address."""


@dataclass(frozen=True)
class ParameterLocation:
    """A location inside a subroutine, relative to one of its parameters: an address plus an offset, a variant, or
    a row index."""

    number: int
    offset: int
    kind: LocationType = None


Location = MemoryLocation | ParameterLocation | VariantSelector | RowIndex


def type_of(place: Location) -> LocationType:
    """Returns the type of a location."""
    if isinstance(place, RowIndex):
        return "row"
    return None if isinstance(place, MemoryLocation) else place.kind


@dataclass(frozen=True)
class LoopPart:
    """An item in the body of a loop, with the number of locations that it uses."""

    what: Action
    places: int


@dataclass(frozen=True)
class ProgramItem:
    """An action of the program with its memory locations."""

    what: Action
    places: tuple[Location, ...]


def base_of(place: Location) -> str | int:
    """Returns the base of a location: a parameter or a memory area."""
    return place.number if isinstance(place, ParameterLocation) else place.area


def roll(items: Iterable[ProgramItem]) -> list[ProgramItem]:
    """Turns repetitions into loops, short ones first, so that they become parts of longer ones."""
    rolled = list(items)
    period = 1
    while period <= min(len(rolled) // 2, LONGEST_PERIOD):
        shorter = _roll_with_period(rolled, period)
        period = 1 if len(shorter) < len(rolled) else period + 1
        rolled = shorter
    return rolled


def _roll_with_period(items: Sequence[ProgramItem], period: int) -> list[ProgramItem]:
    rolled: list[ProgramItem] = []
    at = 0
    while at < len(items):
        count, strides = _repetitions(items, at, period)
        if count > 1:
            body = items[at : at + period]
            parts = tuple(LoopPart(item.what, len(item.places)) for item in body)
            locations = tuple(location for item in body for location in item.places)
            rolled.append(ProgramItem(RolledLoop(count, parts, strides), locations))
            at += count * period
        else:
            rolled.append(items[at])
            at += 1
    return rolled


def _repetitions(items: Sequence[ProgramItem], at: int, period: int) -> tuple[int, tuple[int, ...]]:
    """Returns how often the items from `at` on repeat, and the stride of each of their locations."""
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


def _stride(items: Sequence[ProgramItem], i: int, period: int) -> tuple[int, ...] | None:
    """Returns the strides between an item and the one a period later; None if they differ otherwise."""
    if i + period >= len(items):
        return None
    item, later = items[i], items[i + period]
    if item.what != later.what or list(map(base_of, item.places)) != list(map(base_of, later.places)):
        return None
    return tuple(b.offset - a.offset for a, b in zip(item.places, later.places, strict=True))
