# SPDX-License-Identifier: Apache-2.0
"""The cheapest ways that together run all of a graph in so many bytes: a shortest path over the places where regions may begin and end.

To look at a way takes a thousand times as long as to go along it. So ways are taken for as cheap as they can be until they lie on the shortest
path, and only then looked at; where all of the shortest path is known, no other can be shorter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from pillion.devices.cortex_m import Isa
from pillion.stripes.plan import Stripe
from pillion.stripes.ways import NO_WAY, Way, Ways

ROWS_TRIED = {Isa.MVE: (1, 2, 4, 6, 8, 16)}
"""Rows of the last result that a step may make, where not all of these are worth a look:"""
ALL_ROWS_TRIED = (1, 2, 3, 4, 6, 8, 16)
"""Kernels for the other cores make three pixels at a time: nothing is left over of three rows."""
CHEAP = 0.0005
"""The share of all instructions below which cheaper ways are not looked for."""
GRAINS_TRIED = ((1, 1), (1, 2), (4, 2), (3, 3), (6, 3))
"""Rows of the last result, and the most that any op may make at once, where as many as a step needs are too many."""

Part = tuple[int, int]
"""Ops, from the first to before the end."""


@dataclass(frozen=True)
class Path:
    """A way to run the first ops of a graph: what it adds, and the parts that it goes through."""

    cost: float
    parts: tuple[tuple[Part, Way | None], ...] = ()
    """Those that were not looked at have no way yet."""

    @property
    def unknown(self) -> list[Part]:
        """The parts that were not looked at."""
        return [part for part, way in self.parts if way is None]

    @property
    def stripes(self) -> tuple[Stripe, ...]:
        """The stripes of a path of which all parts were looked at."""
        return tuple(way.stripe for _, way in self.parts if way and way.stripe)


@dataclass
class Paths:
    """All paths through the ways of one graph."""

    ways: Ways

    @cached_property
    def simplest(self) -> tuple[Stripe, ...] | None:
        """The stripes without which it cannot be, the cheapest ones: none but where an input is handed over row by row; None where there
        are no such."""
        return self.cheapest(NO_WAY.bytes - 1) if self.ways.fed is not None else ()

    @cached_property
    def most(self) -> int:
        """The bytes that are live at once where all ops run whole, but what has to run otherwise."""
        whole = max((way.bytes for way in self.ways.whole if way is not NO_WAY), default=0)
        forced = [self.ways.region(s.first, s.end, s.rows, s.grain) for s in self.simplest or ()]
        return max([whole, *(way.bytes for way in forced if way)])

    def cheapest(
        self, bound: int, budget: float = math.inf, *, any_will_do: bool = False
    ) -> tuple[Stripe, ...] | None:
        """Gives the stripes of the cheapest way to run everything in so many bytes; None if there is no way within the budget. Or those of
        some way within it, where any will do."""
        can_be = (part for part in self.ways.spans(bound) if self.ways.least(*part) <= bound)
        costs = ((part, self._least_cost(part, bound)) for part in can_be)
        parts: dict[Part, float | Way] = {part: cost for part, cost in costs if cost <= budget}
        while path := self._shortest(parts, bound, budget):
            unknown = path.unknown
            if not unknown:
                return path.stripes
            for part in unknown:
                way = self._cheapest_fit(part, bound, budget)
                if way is None:
                    del parts[part]
                    break  # the others may not lie on the next path
                parts[part] = way
            if any_will_do and (stripes := self._as_it_is(path, parts, budget)) is not None:
                return stripes
        return None

    @staticmethod
    def _as_it_is(path: Path, parts: dict[Part, float | Way], budget: float) -> tuple[Stripe, ...] | None:
        """The stripes of a path whose parts were all looked at meanwhile, if it can be gone within the budget."""
        found = [way or parts.get(part) for part, way in path.parts]
        ways = [way for way in found if isinstance(way, Way)]
        if len(ways) < len(found) or sum(way.cost for way in ways) > budget:
            return None
        return Path(0, tuple(((0, 0), way) for way in ways)).stripes

    def _shortest(self, parts: dict[Part, float | Way], bound: int, budget: float) -> Path | None:
        """The shortest path, with the least that they can cost for parts that were not looked at; None if there is none within the budget."""
        by_end: dict[int, list[tuple[int, float | Way]]] = {}
        for (first, end), known in parts.items():
            by_end.setdefault(end, []).append((first, known))
        best: list[tuple[float, int, Way | None] | None] = [(0.0, 0, None)]
        for end, whole in enumerate(self.ways.whole, 1):
            steps = by_end.get(end, []) + [(end - 1, whole)] * (whole.bytes <= bound)
            found: tuple[float, int, Way | None] | None = None
            for first, known in steps:
                before = best[first]
                way = known if isinstance(known, Way) else None
                cost = way.cost if way else known
                if before is None or before[0] + cost > budget:  # type: ignore[operator]  # a number
                    continue
                if found is None or before[0] + cost < found[0]:  # type: ignore[operator]  # a number
                    found = before[0] + cost, first, way  # type: ignore[operator]  # a number
            best.append(found)
        return _backwards(best)

    def _least_cost(self, part: Part, bound: int) -> float:
        """About the least that any way of a part costs, with as many rows in a step as are not known to be too many; infinite where there
        is none."""
        steps = [(rows, 0) for rows in self._rows]
        can_be = list(takewhile(lambda step: self.ways.may_fit(*part, *step, bound), steps))
        if not can_be:
            can_be = list(takewhile(lambda step: self.ways.may_fit(*part, *step, bound), GRAINS_TRIED))
        return self.ways.least_cost(*part, max(can_be)[0]) if can_be else math.inf

    @property
    def _rows(self) -> Sequence[int]:
        return ROWS_TRIED.get(self.ways.isa, ALL_ROWS_TRIED)

    def _cheapest_fit(self, part: Part, bound: int, budget: float) -> Way | None:
        """The cheapest way of a part that fits."""
        steps = [(rows, 0) for rows in self._rows]
        # Where all fit, those with the most rows are the cheapest ones.
        fits = list(self._fitting(part, steps[::-1] if bound >= NO_WAY.bytes - 1 else steps, bound, budget))
        if not fits:
            fits = list(self._fitting(part, GRAINS_TRIED, bound, budget))
        return min(fits, key=lambda way: way.cost, default=None)

    def _fitting(
        self, part: Part, steps: Sequence[tuple[int, int]], bound: int, budget: float
    ) -> Iterator[Way]:
        """The ways of a part with rows and grains, until one is too large. What costs too much for certain, or more than one before, is not
        looked at."""
        least = math.inf
        for rows, grain in steps:
            if self.ways.least_cost(*part, rows) > min(budget, least):
                continue
            way = self.ways.region(*part, rows, grain)
            if way is None or way.bytes > bound:
                return
            yield way
            least = min(least, way.cost)
            if way.cost < CHEAP * self.ways.instructions:
                return


def _backwards(best: Sequence[tuple[float, int, Way | None] | None]) -> Path | None:
    """The path to the end, from what is known of the best step to each place."""
    end, parts = len(best) - 1, []
    last = best[end]
    if last is None:
        return None
    while end and (step := best[end]) is not None:
        parts.append(((step[1], end), step[2]))
        end = step[1]
    return Path(last[0], tuple(reversed(parts)))
