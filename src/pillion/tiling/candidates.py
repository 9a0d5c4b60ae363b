# SPDX-License-Identifier: Apache-2.0
"""Candidates for tiling: each part of a graph, whole or as a stripe, with its memory and the instructions that it
adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.tile_variants import VariantCache, memory_of
from pillion.errors import PillionError
from pillion.ir.access import ROWS, Span
from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.memory import schedule
from pillion.memory.demand import RowDemand
from pillion.memory.events import Event, align_up, is_alias
from pillion.memory.warm_up import WarmUpPrediction, predict_from_first_steps
from pillion.ops import Region, split_into_tiles
from pillion.ops.guards import branch_guards, selecting_ops
from pillion.ops.region import rows_made, why_not_in_rows
from pillion.tiling.live_bytes import LiveBytes
from pillion.tiling.part_keys import PartKey, PartKeys
from pillion.tiling.stripe import Stripe
from pillion.tiling.tiling_costs import TilingCosts

LONGEST_REGION, LONGEST_OF_MANY = 40, 24
"""The maximum number of ops in a region, in small graphs and in graphs of more than `MANY` ops."""
MANY = 48
LEAST_SHARE = 0.8
"""A lower bound for the true cost of a region, as a share of its first estimate."""


@dataclass(frozen=True)
class Candidate:
    """One way to run some ops, whole or as a stripe: its live bytes and the instructions that it adds."""

    bytes: int
    cost: float
    stripe: Stripe | None = None


IMPOSSIBLE = Candidate(1 << 60, 0.0)
"""The candidate of an op that cannot run whole, because its operand never lies in the arena as a whole."""


@dataclass
class Candidates:
    """All candidates for the parts of one graph."""

    graph: Graph
    choices: Sequence[KernelChoice]
    isa: Isa
    fed: Value | None = None
    """The input whose rows are delivered one after another, if there is one."""
    known: VariantCache = field(default_factory=VariantCache)
    """The tile variants of ops that were looked at."""
    _found: dict[tuple[int, int, int, int], Candidate | None] = field(default_factory=dict)
    """The examined regions, by their first op, end, rows per step and grain."""

    def __post_init__(self) -> None:
        ops = self.graph.ops
        self.fed_at = next((i for i, op in enumerate(ops) if self.fed in op.activations), 0)
        self.guards = branch_guards(self.graph)
        selecting = selecting_ops(self.guards, self.graph)
        self.why = ["it selects a branch" if op in selecting else why_not_in_rows(op) for op in ops]
        self.live = LiveBytes(self.graph, self.fed, [not why for why in self.why])
        self.whole_ops = [self._whole_op_candidate(i) for i in range(len(ops))]
        self.costs = TilingCosts(self.graph, self.choices, self.isa, self.known)
        self.instructions = self.costs.whole_instructions()
        self._is_border = self._possible_borders()
        self._needed = RowDemand()
        self._part_keys = PartKeys(self.graph, self.choices, self.live.last, self.fed)
        self._least_costs: dict[tuple[PartKey, int], float] = {}
        self._alike: dict[tuple[PartKey, int, int], Candidate | None] = {}
        """Candidates without the bytes of unrelated values, which equal parts share."""

    def _whole_op_candidate(self, i: int) -> Candidate:
        if self.fed in self.graph.ops[i].activations:
            return IMPOSSIBLE
        return Candidate(self.live.of_whole_op(i, memory_of(self.choices[i])), 0.0)

    def spans(self, above: int) -> Iterator[tuple[int, int]]:
        """Yields the parts that may be a region and contain an op that needs more than `above` bytes when it runs
        whole."""
        longest = LONGEST_REGION if len(self.whole_ops) <= MANY else LONGEST_OF_MANY
        hot = [candidate.bytes > above for candidate in self.whole_ops]
        for first in range(len(hot)):
            if not self._is_border[first]:
                continue
            is_hot = False
            least, most = self._region_lengths(first, longest)
            for end in range(first + 1, min(first + most, len(hot)) + 1):
                if self.why[end - 1] or not self._has_same_guards(first, end):
                    break
                is_hot |= hot[end - 1]
                is_border = self._is_border[end] or self.is_fed(first)
                if is_hot and end - first >= least and is_border and self._has_rows(end - 1):
                    yield first, end
                if self._is_tiled_reduction(end - 1):
                    break

    def _has_same_guards(self, first: int, end: int) -> bool:
        """Whether ops run under the same conditions."""
        return len({self.guards.get(op) for op in self.graph.ops[first:end]}) == 1

    def _region_lengths(self, first: int, longest: int) -> tuple[int, int]:
        """Returns the least and the greatest number of ops of a region that begins here. All readers of a fed input
        belong to one region, which begins with the first reader."""
        if self.fed is None or first > self.live.last[self.fed]:
            return 1, longest
        if self.is_fed(first):
            return self.live.last[self.fed] + 1 - first, longest
        return 1, self.fed_at - first

    def _possible_borders(self) -> list[bool]:
        """Decides for each boundary between two ops whether regions may begin or end there: not at a local maximum
        of the bytes that cross it."""
        closes_region = [bool(why) or self._is_tiled_reduction(i) for i, why in enumerate(self.why)]
        free = [
            True,
            *(before or bool(after) for before, after in zip(closes_region, self.why[1:], strict=False)),
            True,
        ]
        free[self.fed_at] = True
        sizes = [0, *self.live.crossing, 0]
        return [is_free or not _is_plateau_edge(sizes, at) for at, is_free in enumerate(free, 1)]

    def least_plan_bytes(self) -> int:
        """Returns the bytes that every plan needs: the most of any op that belongs to no region."""
        inside = [False] * len(self.whole_ops)
        for first, end in self.spans(0):
            inside[first:end] = [True] * (end - first)
        alone = (
            candidate.bytes
            for candidate, is_inside in zip(self.whole_ops, inside, strict=True)
            if not is_inside
        )
        return max((size for size in alone if size < IMPOSSIBLE.bytes), default=0)

    def least_added_cost(self, bound: int) -> float:
        """Estimates the fewest instructions that stripes within a bound add: every op that exceeds the bound when
        it runs whole is called at least once more."""
        return sum(
            self.costs.least_split_cost(i)
            for i, candidate in enumerate(self.whole_ops)
            if candidate.bytes > bound
        )

    def _has_rows(self, i: int) -> bool:
        return rows_made(self.graph.ops[i]) > 1 and self.graph.ops[i].kind != "reshape"

    def _is_tiled_reduction(self, i: int) -> bool:
        """Whether an op is a tiled reduction, whose result has no rows."""
        return self.graph.ops[i].folded_bytes > 0

    def region(self, first: int, end: int, rows: int, grain: int = 0) -> Candidate | None:
        """Returns the candidate of a part as a region with `rows` rows per step, of which no op computes more than
        `grain` at once (0: all); None if it is impossible."""
        key = (first, end, rows, grain)
        if key not in self._found:
            self._found[key] = self._copy_or_make_candidate(first, end, rows, grain)
        return self._found[key]

    def key(self, first: int, end: int) -> PartKey:
        """Returns the key of a part; equal parts have equal keys."""
        return self._part_keys.of(first, end)

    def _copy_or_make_candidate(self, first: int, end: int, rows: int, grain: int) -> Candidate | None:
        """Returns the candidate of a part, copied from an equal part elsewhere in the graph if there is one."""
        alike = (self.key(first, end), rows, grain)
        if alike not in self._alike:
            made = self._make_region_candidate(first, end, rows, grain)
            self._alike[alike] = made and replace(
                made, bytes=made.bytes - align_up(self.live.unrelated(first, end))
            )
            return made
        found = self._alike[alike]
        if found is None or found.stripe is None:
            return None
        stripe = replace(found.stripe, first=first, end=end, fed=self._fed_name(first))
        return Candidate(found.bytes + align_up(self.live.unrelated(first, end)), found.cost, stripe)

    def may_fit(self, first: int, end: int, rows: int, grain: int, bound: int) -> bool:
        """Whether a region fits, or was not examined yet."""
        key = (first, end, rows, grain)
        candidate = self._found.get(key)
        return candidate.bytes <= bound if candidate is not None else key not in self._found

    def _make_region_candidate(self, first: int, end: int, rows: int, grain: int) -> Candidate | None:
        fed = self._fed_name(first)
        units = tuple(choice.kernel.row_unit for choice in self.choices[first:end])
        units = units if any(unit > 1 for unit in units) else ()
        region = split_into_tiles(self.graph, first, end, rows, grain, fed, units)
        if rows >= rows_made(region.body.ops[-1]):
            return None
        try:
            region.check()
        except PillionError:
            return None
        used_up = {x for x in region.xs if self.live.last[x] < end and x is not region.fed_value}
        seen = predict_from_first_steps(
            region,
            lambda op, result_rows: self._scratch_bytes(first + op, result_rows),
            self._needed,
            used_up,
            warm_up_steps(rows),
        )
        return Candidate(
            align_up(self.live.unrelated(first, end)) + align_up(seen.bytes),
            self._region_cost(region, first, seen),
            Stripe(first, end, rows, grain, fed, units),
        )

    def is_fed(self, first: int) -> bool:
        """Whether a region that begins here receives its rows from outside."""
        return self.fed is not None and first == self.fed_at

    def _fed_name(self, first: int) -> str:
        """Returns the name of the fed input of a region that begins here, or nothing."""
        return self.fed.name if self.fed is not None and self.is_fed(first) else ""

    def _scratch_bytes(self, i: int, rows: int) -> int:
        if self._is_tiled_reduction(i):  # it is kept, and counted so
            return 0
        return align_up(self.known.memory(self.costs.middle_kernel(i, rows)).scratch_bytes)

    def _region_cost(self, region: Region, first: int, seen: WarmUpPrediction) -> float:
        """Returns the instructions that a region adds: calls beyond the whole ops' calls, and moves."""
        images = region.ys[0].shape[0]
        calls = sum(
            times * self.costs.added_instructions(first + i, rows)
            for i, runs in enumerate(seen.runs)
            for rows, times in runs.items()
        )
        calls += sum(
            self.costs.edge_call_instructions(first + i, max(runs, key=runs.__getitem__))
            for i, runs in enumerate(seen.runs)
            if runs
        )
        return images * (calls + seen.moved_bytes * self.costs.per_moved_byte)

    def least_cost(self, first: int, end: int, rows: int) -> float:
        """Returns a lower bound for the added instructions, as if each op ran once per step."""
        key = (self.key(first, end), rows)
        if key not in self._least_costs:
            height = rows_made(self.graph.ops[end - 1])
            steps = max(1, min(warm_up_steps(rows), height // rows))  # the last step may have fewer rows
            before = self._rows_per_result(first, end, (steps - 1) * rows)
            after = self._rows_per_result(first, end, min(steps * rows, height))
            self._least_costs[key] = LEAST_SHARE * sum(
                rows_made(self.graph.ops[i])
                / result_rows
                * steps
                * self._least_call_cost(i, result_rows - before[i])
                for i, result_rows in after.items()
                if result_rows > before[i]
            )
        return self._least_costs[key]

    def _least_call_cost(self, i: int, rows: int) -> float:
        """Returns the least added instructions for some rows of an op, in calls of as many or of one more or less."""
        whole = rows_made(self.graph.ops[i])
        return min(
            rows / near * self.costs.added_instructions(i, near)
            for near in (rows - 1, rows, rows + 1)
            if 0 < near <= whole
        )

    def _rows_per_result(self, first: int, end: int, rows: int) -> dict[int, int]:
        """Returns the rows of each result of a region while the last one has `rows` rows."""
        result_rows = dict.fromkeys(range(first, end - 1), 0) | {end - 1: rows}
        for i in range(end - 1, first - 1, -1):
            op = self.graph.ops[i]
            if not result_rows[i] or is_alias(op):
                continue
            for x, span in self._needed.spans(op, Span(0, result_rows[i])).items():
                at = self.live.born[x]
                if at >= first:
                    result_rows[at] = max(result_rows[at], x.shape[ROWS] if span is None else span.end)
        return result_rows

    def variations(self, stripes: Sequence[Stripe]) -> Iterator[tuple[Stripe, ...]]:
        """Yields variations of stripes: one begins or ends elsewhere, or has other rows per step."""
        for i, stripe in enumerate(stripes):
            before = stripes[i - 1].end if i else 0
            after = stripes[i + 1].first if i + 1 < len(stripes) else len(self.whole_ops)
            others = (
                replace(stripe, first=stripe.first - 1),
                replace(stripe, first=stripe.first + 1),
                replace(stripe, end=stripe.end + 1),
                replace(stripe, end=stripe.end - 1),
                replace(stripe, rows=max(stripe.rows // 2, 1)),
                stripe if stripe.grain else replace(stripe, rows=2 * stripe.rows, grain=stripe.rows),
            )
            for variation in others:
                is_there = before <= variation.first < variation.end <= after
                if (
                    variation == stripe
                    or not is_there
                    or (self.fed is not None and stripe.fed and not self._has_all_fed_readers(variation))
                    or any(self.why[variation.first : variation.end])
                    or not self._has_same_guards(variation.first, variation.end)
                ):
                    continue
                if not self._has_rows(variation.end - 1):
                    continue
                candidate = self.region(variation.first, variation.end, variation.rows, variation.grain)
                if candidate is not None and candidate.stripe is not None:
                    yield (*stripes[:i], candidate.stripe, *stripes[i + 1 :])

    def _has_all_fed_readers(self, stripe: Stripe) -> bool:
        """Whether a stripe contains all readers of a fed input."""
        return self.is_fed(stripe.first) and (self.fed is None or self.live.last[self.fed] < stripe.end)

    def exact_cost(self, stripe: Stripe, events: Sequence[Event] = ()) -> float:
        """Returns the instructions that a stripe adds, counted over the whole schedule instead of its first steps."""
        events = events or schedule(split_into_tiles(self.graph, *astuple(stripe))).events
        return self.costs.instructions_of_events(stripe.first, events)

    def cost(self, stripes: Sequence[Stripe]) -> float:
        """Estimates the instructions that stripes add."""
        candidates = (self.region(s.first, s.end, s.rows, s.grain) for s in stripes)
        return sum(candidate.cost for candidate in candidates if candidate)


def warm_up_steps(rows: int) -> int:
    """Returns the number of steps to simulate, enough to predict the others."""
    return 3 if rows < 8 else 2


def _is_plateau_edge(sizes: Sequence[int], at: int) -> bool:
    """Whether a size is the first or the last of equal ones between smaller ones."""
    here = sizes[at]
    before = next((size for size in sizes[at::-1] if size != here), here)
    after = next((size for size in sizes[at:] if size != here), here)
    return max(before, after) < here and not sizes[at - 1] == here == sizes[at + 1]
