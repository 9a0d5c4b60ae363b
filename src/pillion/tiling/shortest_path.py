# SPDX-License-Identifier: Apache-2.0
"""Lazy shortest-path search for the cheapest candidates that together run a graph within a bound.

Pricing a candidate takes a thousand times as long as traversing it. Candidates are priced by a lower bound
until they lie on the shortest path; once all of that path is priced, no other path is shorter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from pillion.devices.cortex_m import Isa
from pillion.tiling.candidates import IMPOSSIBLE, Candidate, Candidates
from pillion.tiling.part_keys import PartKey
from pillion.tiling.stripe import Stripe

ROWS_TRIED = {Isa.MVE: (1, 2, 4, 6, 8, 16)}
"""Rows per step that are tried, by instruction set."""
ALL_ROWS_TRIED = (1, 2, 3, 4, 6, 8, 16)
"""The default: kernels of the other cores compute three pixels at once, so three rows leave none over."""
CHEAP = 0.0005
"""The share of all instructions below which no cheaper candidate is sought."""
GRAINS_TRIED = ((1, 1), (1, 2), (4, 2), (3, 3), (6, 3))
"""Rows per step and the maximum rows per op run, tried if the default needs too much memory."""

Part = tuple[int, int]
"""Ops, from the first to before the end."""


@dataclass(frozen=True)
class TilingPath:
    """A way to run the first ops of a graph: its cost and its parts."""

    cost: float
    parts: tuple[tuple[Part, Candidate | None], ...] = ()
    """The parts; unpriced ones have no candidate yet."""

    @property
    def stripes(self) -> tuple[Stripe, ...]:
        """The stripes of a fully priced path."""
        return tuple(candidate.stripe for _, candidate in self.parts if candidate and candidate.stripe)


@dataclass
class TilingPathSearch:
    """The search over the candidates of one graph."""

    candidates: Candidates

    @cached_property
    def simplest(self) -> tuple[Stripe, ...] | None:
        """The cheapest required stripes: none, unless an input is fed row by row; None if that is impossible."""
        return self.cheapest_stripes(IMPOSSIBLE.bytes - 1) if self.candidates.fed is not None else ()

    @cached_property
    def unstriped_bytes(self) -> int:
        """The live bytes if all ops run whole, except ops that cannot."""
        unsplit_bytes = max(
            (candidate.bytes for candidate in self.candidates.whole_ops if candidate is not IMPOSSIBLE),
            default=0,
        )
        forced = [self.candidates.region(s.first, s.end, s.rows, s.grain) for s in self.simplest or ()]
        return max([unsplit_bytes, *(candidate.bytes for candidate in forced if candidate)])

    def cheapest_stripes(
        self, bound: int, budget: float = math.inf, *, any_will_do: bool = False
    ) -> tuple[Stripe, ...] | None:
        """Returns the stripes of the cheapest path within `bound` bytes; None if none is within the budget. With
        `any_will_do`, the first path found."""
        if self.candidates.least_added_cost(bound) > budget:
            return None
        can_be = (
            part
            for part in self.candidates.spans(bound)
            if self.candidates.live.least_of_region(*part) <= bound
        )
        costs = ((part, self._least_cost(part, bound)) for part in can_be)
        parts: dict[Part, float | Candidate] = {part: cost for part, cost in costs if cost <= budget}
        alike: dict[PartKey, list[Part]] = {}
        for part in parts:
            alike.setdefault(self.candidates.key(*part), []).append(part)
        while path := self._shortest_path(parts, bound, budget):
            unknown = [part for part, candidate in path.parts if candidate is None]
            if not unknown:
                return path.stripes
            for part in unknown:
                if not self._price_equal_parts(part, alike[self.candidates.key(*part)], parts, bound, budget):
                    break  # the others may not lie on the next path
            if any_will_do and (stripes := self._stripes_if_priced(path, parts, budget)) is not None:
                return stripes
        return None

    def _price_equal_parts(
        self,
        part: Part,
        alike: Sequence[Part],
        parts: dict[Part, float | Candidate],
        bound: int,
        budget: float,
    ) -> bool:
        """Prices a part and all equal parts, and drops parts that do not fit. Returns whether the part fits."""
        for equal in alike:
            if equal in parts and not isinstance(parts[equal], Candidate):
                candidate = self._cheapest_fit(equal, bound, budget)
                if candidate is None:
                    del parts[equal]
                else:
                    parts[equal] = candidate
        return part in parts

    @staticmethod
    def _stripes_if_priced(
        path: TilingPath, parts: dict[Part, float | Candidate], budget: float
    ) -> tuple[Stripe, ...] | None:
        """Returns the stripes of a path that is fully priced by now, if it is within the budget."""
        priced = [candidate or parts.get(part) for part, candidate in path.parts]
        candidates = [candidate for candidate in priced if isinstance(candidate, Candidate)]
        if len(candidates) < len(priced) or sum(candidate.cost for candidate in candidates) > budget:
            return None
        return TilingPath(0, tuple(((0, 0), candidate) for candidate in candidates)).stripes

    def _shortest_path(
        self, parts: dict[Part, float | Candidate], bound: int, budget: float
    ) -> TilingPath | None:
        """Returns the shortest path, with lower bounds for unpriced parts; None if none is within the budget."""
        by_end: dict[int, list[tuple[int, float | Candidate]]] = {}
        for (first, end), known in parts.items():
            by_end.setdefault(end, []).append((first, known))
        best: list[tuple[float, int, Candidate | None] | None] = [(0.0, 0, None)]
        for end, whole_op in enumerate(self.candidates.whole_ops, 1):
            steps = by_end.get(end, []) + [(end - 1, whole_op)] * (whole_op.bytes <= bound)
            best_step: tuple[float, int, Candidate | None] | None = None
            for first, known in steps:
                before = best[first]
                candidate = known if isinstance(known, Candidate) else None
                cost = candidate.cost if candidate else known
                if before is None or before[0] + cost > budget:  # type: ignore[operator]  # a number
                    continue
                if best_step is None or before[0] + cost < best_step[0]:  # type: ignore[operator]  # a number
                    best_step = before[0] + cost, first, candidate  # type: ignore[operator]  # a number
            best.append(best_step)
        return _reconstruct_path(best)

    def _least_cost(self, part: Part, bound: int) -> float:
        """Returns a lower bound for all candidates of a part that may fit; infinite if none does."""
        steps = [(rows, 0) for rows in self._rows_per_step]
        can_be = list(takewhile(lambda step: self.candidates.may_fit(*part, *step, bound), steps))
        if not can_be:
            can_be = list(takewhile(lambda step: self.candidates.may_fit(*part, *step, bound), GRAINS_TRIED))
        return self.candidates.least_cost(*part, max(can_be)[0]) if can_be else math.inf

    @property
    def _rows_per_step(self) -> Sequence[int]:
        return ROWS_TRIED.get(self.candidates.isa, ALL_ROWS_TRIED)

    def _cheapest_fit(self, part: Part, bound: int, budget: float) -> Candidate | None:
        """Returns the cheapest candidate of a part that fits."""
        steps = [(rows, 0) for rows in self._rows_per_step]
        # If all candidates fit, the most rows per step are the cheapest.
        fits = list(
            self._fitting_candidates(
                part, steps[::-1] if bound >= IMPOSSIBLE.bytes - 1 else steps, bound, budget
            )
        )
        if not fits:
            fits = list(self._fitting_candidates(part, GRAINS_TRIED, bound, budget))
        return min(fits, key=lambda candidate: candidate.cost, default=None)

    def _fitting_candidates(
        self, part: Part, steps: Sequence[tuple[int, int]], bound: int, budget: float
    ) -> Iterator[Candidate]:
        """Yields candidates of a part until one is too large; skips candidates that certainly cost too much."""
        least = math.inf
        for rows, grain in steps:
            if self.candidates.least_cost(*part, rows) > min(budget, least):
                continue
            candidate = self.candidates.region(*part, rows, grain)
            if candidate is None or candidate.bytes > bound:
                return
            yield candidate
            least = min(least, candidate.cost)
            if candidate.cost < CHEAP * self.candidates.instructions:
                return


def _reconstruct_path(best: Sequence[tuple[float, int, Candidate | None] | None]) -> TilingPath | None:
    """Reconstructs the path from the best step to each position."""
    end, parts = len(best) - 1, []
    last = best[end]
    if last is None:
        return None
    while end and (step := best[end]) is not None:
        parts.append(((step[1], end), step[2]))
        end = step[1]
    return TilingPath(last[0], tuple(reversed(parts)))
