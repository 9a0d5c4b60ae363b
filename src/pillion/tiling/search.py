# SPDX-License-Identifier: Apache-2.0
"""The search for stripes that satisfy a memory budget.

Costs are estimates: instructions of additional kernel calls (`Kernel.call_cost`) and of moves. Memory is the
number of live bytes; the chosen plan is made in full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pillion.compile_options import Memory
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.lower import CProgram, pack_constants
from pillion.emitters.c.select_and_plan import KernelPlan, select_and_plan, with_least_memory
from pillion.emitters.c.tile_variants import VariantCache
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import DType, Value
from pillion.memory.events import ALIGNMENT, align_up
from pillion.ops import Quantize, Transpose
from pillion.tiling.candidates import MANY, Candidates
from pillion.tiling.rows_in import find_rows_input
from pillion.tiling.shortest_path import TilingPathSearch
from pillion.tiling.stripe import Stripe, striped

BOUNDS_TRIED = 10
"""Bounds for which plans are made before a budget is refused."""
SURE = 0.96
"""The share of a price that estimates may reach: for the nets of docs/performance.md they are up to 4 % too low."""
DEFAULT_EXTRA = 0.01
"""The default price of less RAM and of row input, as a share of instructions."""
WORTH_BYTES, WORTH_SHARE = 4096, 0.1
"""The least RAM that default stripes must save, in bytes and of the arena: their code takes one to three thousand
bytes of flash."""
NEAR_WORTH = 0.9
"""The share of this RAM that live bytes must save: a plan takes about as many bytes as are live at once."""
NEAR_BOUNDS = (1.0, 1.03, 1.06, 1.1, 1.15, 1.2)
"""Multiples of the least bound for which plans are made: live bytes are a lower bound of a plan."""

PRICES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of instructions for which the smallest plans are made before a bound is refused."""
FAR, NEARBY = 1.03, 16
"""How much larger than the least bound a plan is whose variations are tried, and the maximum number of variations."""
COUNTED_AGAIN, LESS = 3, 0.97
"""How often cheaper plans are sought after counting the whole schedule exceeds the price, and by which factor
cheaper."""


@dataclass(frozen=True)
class TilingPlan:
    """Stripes and the resulting memory plan."""

    stripes: tuple[Stripe, ...]
    arranged: KernelPlan | CProgram

    @property
    def bytes(self) -> int:
        """The size of the arena."""
        return self.arranged.memory.arena_bytes

    @property
    def with_final_placement(self) -> TilingPlan:
        """The same stripes with a memory plan of the largest effort, as for the final program."""
        kernel_plan = self.arranged
        return (
            replace(self, arranged=with_least_memory(kernel_plan))
            if isinstance(kernel_plan, KernelPlan)
            else self
        )

    @cached_property
    def program(self) -> CProgram:
        """The lowered program."""
        if isinstance(self.arranged, CProgram) and self.arranged.memory.several is not None:
            return self.arranged
        return pack_constants(with_least_memory(self.arranged))


def plan_stripes(
    graph: Graph, unstriped: CProgram, stripes: tuple[Stripe, ...], known: VariantCache | None = None
) -> TilingPlan:
    """Returns the plan of a graph with stripes. `unstriped` is its program without stripes; `known` has tile variants
    of other plans."""
    if not stripes:
        return TilingPlan((), unstriped)
    known = whole_op_variants(unstriped) if known is None else known
    return TilingPlan(
        stripes,
        select_and_plan(
            striped(graph, stripes),
            unstriped.isa,
            unstriped.optimize,
            known,
            unstriped.workspaces,
            unstriped.npu_calls,
            unstriped.byte_price,
        ),
    )


def whole_op_variants(unstriped: CProgram) -> VariantCache:
    """Returns the ops of a program without stripes, with their kernels, as tile variants."""
    excluded = {op_sums.op for op_sums in unstriped.sums}
    choices = (step.choice for step in unstriped.steps if step.choice.op not in excluded)
    return VariantCache(choices, unstriped.byte_price)


def find_stripes(graph: Graph, unstriped: CProgram, spec: Memory, outside_bytes: int = 0) -> TilingPlan:
    """Returns the stripes for a budget. `unstriped` is the program without stripes; `outside_bytes` is RAM outside
    the arena."""
    if not graph.ops:
        return TilingPlan((), unstriped)
    search = tiling_search(graph, unstriped, spec)
    if spec.limit is not None:
        return search.within(spec.limit, outside_bytes)
    if spec.by_rows and spec.share is None:
        least = find_stripes(graph, unstriped, Memory()).bytes  # rows must save memory against this
        return search.cheapest_below(least, [DEFAULT_EXTRA, *(x for x in PRICES if x > DEFAULT_EXTRA)])
    share = DEFAULT_EXTRA if spec.share is None else spec.share
    worth = max(WORTH_BYTES, int(WORTH_SHARE * search.unstriped.memory.arena_bytes)) if spec.is_default else 0
    return search.smallest_within_extra(SURE * share * search.candidates.instructions, worth)


def tiling_search(graph: Graph, unstriped: CProgram, spec: Memory) -> TilingSearch:
    """Returns the search for the plan of a graph."""
    fed = find_rows_input(graph, spec.by_rows) if spec.by_rows else None
    return TilingSearch(TilingPathSearch(tiling_candidates(graph, unstriped, fed)), unstriped)


def tiling_candidates(graph: Graph, unstriped: CProgram, fed: Value | None) -> Candidates:
    """Returns the candidates of a graph; one input may be `fed` row by row. `unstriped` is its program without
    stripes."""
    kernels = {step.choice.op: step.choice.kernel for step in unstriped.steps}
    return Candidates(
        graph,
        [KernelChoice(op, kernels[op], ()) for op in graph.ops],
        unstriped.isa,
        fed,
        whole_op_variants(unstriped),
    )


def price(graph: Graph, unstriped: CProgram, stripes: Sequence[Stripe]) -> float:
    """Estimates the share of instructions that stripes add to the program without stripes."""
    names = {stripe.fed for stripe in stripes if stripe.fed}
    candidates = tiling_candidates(
        graph, unstriped, next((value for value in graph.inputs if value.name in names), None)
    )
    return sum(map(candidates.exact_cost, stripes)) / max(candidates.instructions, 1)


@dataclass(frozen=True)
class TilingSearch:
    """The search for the plan of one graph."""

    paths: TilingPathSearch
    unstriped: CProgram

    @property
    def candidates(self) -> Candidates:
        """The candidates for the parts of the graph."""
        return self.paths.candidates

    def plan(self, stripes: tuple[Stripe, ...]) -> TilingPlan:
        """Makes the plan with stripes."""
        return plan_stripes(self.candidates.graph, self.unstriped, stripes, self.candidates.known)

    def simplest(self) -> TilingPlan:
        """Returns the plan without stripes or, with row input, the cheapest one."""
        stripes = self.paths.simplest
        if stripes is None:
            raise PillionError(
                f"`{self.candidates.graph.name}` cannot be handed its input row by row",
                rule="the ops that read the input can run together a few rows at a time",
                here="no region of ops from the first that reads it on makes a result that has rows",
                help="leave --rows-in out",
            )
        return self.plan(stripes)

    def smallest_within_extra(self, budget: float, worth: int = 0) -> TilingPlan:
        """Returns the smallest plan within the price, or the simplest plan if that saves less than `worth` bytes."""
        simplest = self.simplest()
        budget = max(budget, self.candidates.cost(simplest.stripes), self.exact_cost(simplest))
        least = int(NEAR_WORTH * worth)
        if not budget or (worth and self.paths.unstriped_bytes - self.candidates.least_plan_bytes() < worth):
            return simplest
        if (
            worth
            and self.paths.cheapest_stripes(self.paths.unstriped_bytes - least, budget, any_will_do=True)
            is None
        ):
            return simplest
        bound = self._least_bound(budget)
        if worth and self.paths.unstriped_bytes - bound < least:
            return simplest
        best = self._smallest_near(bound, budget, simplest)
        if best.stripes and best.bytes > FAR * bound and len(self.candidates.whole_ops) <= MANY:
            best = self._smallest_variation(best, budget)
        return best if simplest.bytes - best.bytes >= worth else simplest

    def cheapest_below(self, limit: int, shares: Sequence[float]) -> TilingPlan:
        """Returns the smallest plan at the first price that is smaller than a limit, or of all prices if none is."""
        plans = []
        for share in shares:
            plans.append(self.smallest_within_extra(SURE * share * self.candidates.instructions))
            if plans[-1].bytes < limit:
                break
        return min(plans, key=lambda plan: plan.bytes)

    def _smallest_near(self, bound: int, budget: float, simplest: TilingPlan) -> TilingPlan:
        """Returns the smallest plan for bounds near a given one whose cost, counted over the whole schedule, is
        within the price; else the simplest plan. If the first estimate was too low, it searches again with a
        lower price."""
        allowed = budget
        for _ in range(COUNTED_AGAIN):
            near = dict.fromkeys(
                self.paths.cheapest_stripes(int(bound * more), allowed) for more in NEAR_BOUNDS
            )
            plans = [self.plan(stripes) for stripes in near if stripes is not None]
            fitting = [plan for plan in plans if self.exact_cost(plan) <= budget]
            if fitting:
                return min([simplest, *fitting], key=lambda plan: plan.bytes)
            least = min(map(self.exact_cost, plans), default=0.0)
            allowed *= min(budget / least, 1.0) * LESS if least > 0 else LESS
        return simplest

    def exact_cost(self, plan: TilingPlan) -> float:
        """Counts the instructions that the stripes of a plan add over the whole schedule."""
        arranged = plan.arranged
        regions = arranged.regions.values() if isinstance(arranged, KernelPlan) else ()
        return sum(
            self.candidates.exact_cost(stripe, region.schedule.events)
            for stripe, region in zip(plan.stripes, regions, strict=False)
        )

    def _smallest_variation(self, plan: TilingPlan, budget: float) -> TilingPlan:
        """Returns the smallest of a plan and its variations: similar live bytes may be placed more tightly."""
        tried = 0
        for _ in plan.stripes:
            others = [
                stripes
                for stripes in dict.fromkeys(self.candidates.variations(plan.stripes))
                if self.candidates.cost(stripes) <= budget
            ][: NEARBY - tried]
            tried += len(others)
            affordable = [
                variation for variation in map(self.plan, others) if self.exact_cost(variation) <= budget
            ]
            best = min([plan, *affordable], key=lambda candidate: candidate.bytes)
            if best is plan:
                break
            plan = best
        return plan

    def _least_bound(self, budget: float = math.inf) -> int:
        """Returns the least bound, to a quarter of a percent, that is possible at the price."""
        low, high = self.candidates.least_plan_bytes(), self.paths.unstriped_bytes
        while high - low > max(high // 400, ALIGNMENT):
            middle = math.isqrt(low * high) if 0 < 2 * low < high else (low + high) // 2
            stripes = self.paths.cheapest_stripes(middle, budget, any_will_do=True)
            low, high = (low, middle) if stripes is not None else (middle, high)
        return high

    def within(self, limit: int, outside_bytes: int) -> TilingPlan:
        """Returns the cheapest plan that fits."""
        room = limit - outside_bytes
        simplest = self.simplest()
        if simplest.bytes <= room:
            return simplest
        bound = room
        while bound > 0 and (stripes := self.paths.cheapest_stripes(bound)) is not None:
            plan = self.plan(stripes)
            if plan.bytes <= room:
                return plan
            bound -= max((plan.bytes - room) // 2, ALIGNMENT)
        smallest = simplest
        for share in PRICES:  # live bytes are an estimate, and a plan may be placed more tightly
            plan = self.smallest_within_extra(share * self.candidates.instructions)
            if plan.bytes <= room:
                return plan
            smallest = min(smallest, plan, key=lambda candidate: candidate.bytes)
        smallest = self._smallest_plan(smallest).with_final_placement
        if smallest.bytes <= room:
            return smallest
        raise self._ram_limit_error(limit, outside_bytes, simplest.bytes, smallest.bytes)

    def _smallest_plan(self, simplest: TilingPlan) -> TilingPlan:
        """Returns the smallest of the plans for bounds from the least upwards: live bytes are a lower bound, and
        sometimes a larger bound has the smaller plan."""
        least, most = max(self._least_bound(), 1), self.paths.unstriped_bytes
        bounds = [int(least * (most / least) ** (step / BOUNDS_TRIED)) for step in range(BOUNDS_TRIED)]
        stripe_sets = [self.paths.cheapest_stripes(bound) for bound in bounds]
        tried = dict.fromkeys(stripes for stripes in stripe_sets if stripes)
        return min([simplest, *map(self.plan, tried)], key=lambda plan: plan.bytes)

    def _ram_limit_error(self, limit: int, outside_bytes: int, simplest: int, smallest: int) -> PillionError:
        """Returns the error if nothing fits, with the least that would."""
        candidates, least = self.candidates, smallest + outside_bytes
        sizes = [(one.bytes, i) for i, one in enumerate(candidates.whole_ops) if candidates.why[i]]
        size, i = max((one for one in sizes if limit - outside_bytes < one[0] <= smallest), default=(0, 0))
        op = candidates.graph.ops[i]
        reason = f"; {op.kind} `{op.name}` takes {size:,} bytes: {candidates.why[i]}" if size else ""
        return PillionError(
            f"`{candidates.graph.name}` does not fit into {limit:,} bytes of RAM",
            rule="--max-ram is at least what the smallest plan needs",
            here=f"{simplest + outside_bytes:,} bytes without stripes, {least:,} with{reason}",
            help=f"--max-ram {least}, {_input_shrinking_help(candidates.graph, smallest)}a smaller input, or a narrower model",
        )


def _input_shrinking_help(graph: Graph, smallest: int) -> str:
    """Names the options that shrink the input, if it and its int8 copy fill the smallest plan: int8 is a quarter of
    float32, and NHWC images are not copied."""
    types = [value.type for value in graph.inputs]
    if sum(align_up(one.size_bytes) + align_up(one.elements) for one in types) < smallest:
        return ""
    readers = [graph.only_user(value) for value in graph.inputs]
    readers += [graph.only_user(op.y) for op in readers if isinstance(op, Quantize)]
    options = ["--io-dtype int8"] if any(value.dtype is DType.FLOAT32 for value in graph.inputs) else []
    options += ["--io-layout nhwc"] if any(isinstance(op, Transpose) for op in readers) else []
    return f"{' '.join(options)} (a smaller input buffer), " if options else ""
