# SPDX-License-Identifier: Apache-2.0
"""The actions of a program, such as kernel calls and moves, each with its locations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pillion.ir.types import Value
from pillion.memory import MemoryLocation


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
