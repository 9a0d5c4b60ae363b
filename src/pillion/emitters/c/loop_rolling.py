# SPDX-License-Identifier: Apache-2.0
"""A program as a list of items (kernel calls and moves), in which repetitions at evenly spaced locations become
loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pillion.ir.types import Value
from pillion.memory import MemoryLocation

LONGEST_PERIOD = 400
"""The largest number of items in a loop body."""


@dataclass(frozen=True)
class RunStep:
    """Runs one variant of a step; its locations are the places of the operands and results."""

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


@dataclass(frozen=True)
class LoadConstant:
    """Copies a constant; its location is the destination."""

    bytes: int
    value: Value


@dataclass(frozen=True)
class RolledLoop:
    """Runs a body `count` times; its locations are those of the first iteration, with strides."""

    count: int
    body: tuple[ProgramItem, ...]

    @property
    def waits(self) -> bool:
        """Whether it takes rows from the caller: execution may leave it and resume."""
        return any(waits(part.what) for part in self.body)


@dataclass(frozen=True)
class RunBranch:
    """Runs a body if a flag has a value; its location is the flag's."""

    flag: str
    """The name of the flag's value."""
    value: bool
    body: tuple[ProgramItem, ...]


@dataclass(frozen=True)
class CallSubroutine:
    """Calls an outlined subroutine (outlining.py); its locations are the arguments."""

    subroutine: int
    waits: bool = False
    """Whether the subroutine takes rows from the caller."""


def waits(what: Action) -> bool:
    """Whether the item takes rows from the caller."""
    return isinstance(what, TakeRows) or (isinstance(what, (RolledLoop, CallSubroutine)) and what.waits)


@dataclass(frozen=True)
class RunVariant:
    """Runs one of several variants of a step with the same signature; its first location selects the variant."""

    first: RunStep
    """The first of the variants."""


@dataclass(frozen=True)
class FetchConstants:
    """Starts copying arrays, one after another, to a location: each by its name and size."""

    arrays: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AwaitConstants:
    """Waits for the copy that was started last."""


@dataclass(frozen=True)
class AwaitSegment:
    """Waits until the NPU has run a segment; its locations are the places of the segment's operands and results."""

    step: int


Action = (
    FetchConstants
    | AwaitConstants
    | AwaitSegment
    | RunStep
    | RunVariant
    | MoveRows
    | TakeRows
    | LoadConstant
    | RolledLoop
    | RunBranch
    | CallSubroutine
)


def branches_in(items: Iterable[ProgramItem]) -> Iterator[RunBranch]:
    """Yields all branches, outer ones first."""
    for item in items:
        if isinstance(item.what, RunBranch):
            yield item.what
            yield from branches_in(item.what.body)


def steps_in(items: Iterable[ProgramItem]) -> list[int]:
    """Returns the steps that items run, each once."""
    found: set[int] = set()
    for item in items:
        if isinstance(item.what, RunStep):
            found.add(item.what.step)
        elif isinstance(item.what, (RolledLoop, RunBranch)):
            found.update(steps_in(item.what.body))
    return sorted(found)


@dataclass(frozen=True)
class VariantSelector:
    """A variant as a pseudo-location, the selector of `RunVariant`."""

    variant: int
    kind: RunStep
    """The first variant with the same signature."""
    offset: int = 0
    area: str = "variant"


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
class MovingLocation:
    """A location with its stride in each enclosing loop, the outermost first."""

    start: Location
    strides: tuple[int, ...] = ()

    @property
    def kind(self) -> object:
        """The properties that locations share if a loop may merge them: the base, and the strides of inner loops."""
        return base_of(self.start), self.strides


@dataclass(frozen=True)
class ProgramItem:
    """An action of the program with its locations; a loop's locations are in its body."""

    what: Action
    places: tuple[MovingLocation, ...] = ()

    @classmethod
    def at(cls, what: Action, *places: Location) -> ProgramItem:
        """Returns an action outside of loops."""
        return cls(what, tuple(map(MovingLocation, places)))


def base_of(place: Location) -> str | int:
    """Returns the base of a location: a parameter or a memory area."""
    return place.number if isinstance(place, ParameterLocation) else place.area


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
