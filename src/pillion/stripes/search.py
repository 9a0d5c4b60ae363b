# SPDX-License-Identifier: Apache-2.0
"""The search for stripes: which ways to run a graph fulfil a wish for the memory.

Costs are estimates: instructions of each further call of a kernel (`Kernel.each_call`) and of moves. Memory is counted in what is live at
once; the plan that is chosen in the end was made in full."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pillion.emitters.c.arrange import Arranged, arrange, with_least_memory
from pillion.emitters.c.choose import Choice
from pillion.emitters.c.cuts import Forms
from pillion.emitters.c.program import CProgram, packed
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.memory.events import ALIGNMENT
from pillion.stripes.paths import Paths
from pillion.stripes.plan import Stripe, striped
from pillion.stripes.rows_in import want_rows_in
from pillion.stripes.ways import MANY, Ways
from pillion.stripes.wish import WHOLE, MemoryWish

BOUNDS_TRIED = 10
"""Bounds for which plans are made before a wish is refused."""
SURE = 0.96
"""The share of a price that estimates may reach: for the nets of docs/performance.md they are up to 4 % of themselves too low."""
EXTRA_FOR_ROWS = 0.01
"""The share of instructions that may be added where rows are handed over and nothing is said of a price."""
NEAR_BOUNDS = (1.0, 1.03, 1.06, 1.1, 1.15, 1.2)
"""How many times as large as the least bound are those for which plans are made: what is live at once is not yet a plan."""

PRICES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of instructions for which the smallest plans are made before a bound of the memory is refused."""
FAR, NEARBY = 1.03, 16
"""How many times as large as the least bound a plan is of which others are tried that are like it, and how many at most."""
COUNTED_AGAIN, LESS = 3, 0.97
"""How often plans are looked for that cost less at first sight, where all that happens in them costs too much, and how much less."""


@dataclass(frozen=True)
class Plan:
    """Stripes, and where everything lies with them."""

    stripes: tuple[Stripe, ...]
    arranged: Arranged | CProgram

    @property
    def bytes(self) -> int:
        """The size of the arena."""
        return self.arranged.memory.arena_bytes

    @property
    def settled(self) -> Plan:
        """The same stripes with a plan of the memory that was looked for thoroughly, as it is for the program."""
        found = self.arranged
        return replace(self, arranged=with_least_memory(found)) if isinstance(found, Arranged) else self

    @cached_property
    def program(self) -> CProgram:
        """The program in full."""
        if not isinstance(self.arranged, Arranged):
            return self.arranged
        return packed(with_least_memory(self.arranged))


def plan_with(graph: Graph, whole: CProgram, stripes: tuple[Stripe, ...], known: Forms | None = None) -> Plan:
    """Gives the plan of a graph with stripes. `whole` is its program without any, `known` are forms that other plans have."""
    if not stripes:
        return Plan((), whole)
    known = known_forms(whole) if known is None else known
    return Plan(stripes, arrange(striped(graph, stripes), whole.isa, whole.optimize, known, whole.workspaces))


def known_forms(whole: CProgram) -> Forms:
    """Gives the ops of a program that runs whole, with the kernels that they have there."""
    kept = {one.op for one in whole.sums}
    return Forms(step.choice for step in whole.steps if step.choice.op not in kept)


def find_stripes(graph: Graph, whole: CProgram, wish: MemoryWish, beside: int = 0) -> Plan:
    """Gives the stripes that a wish asks for. `whole` is the program of the graph without any; `beside` are bytes of RAM that are not
    the arena's."""
    if wish == WHOLE or not graph.ops:
        return Plan((), whole)
    ways = ways_of(graph, whole, want_rows_in(graph, wish.rows_in) if wish.rows_in else None)
    search = Search(Paths(ways), whole)
    if wish.max_ram is not None:
        return search.within(wish.max_ram, beside)
    usual = EXTRA_FOR_ROWS if wish.rows_in else 0.0
    budget = SURE * (usual if wish.extra is None else wish.extra) * ways.instructions
    return search.for_extra(budget, wish.least_saving(search.whole.memory.arena_bytes))


def ways_of(graph: Graph, whole: CProgram, fed: Value | None) -> Ways:
    """Gives the ways to run parts of a graph, of which an input may be handed over row by row. `whole` is its program without stripes."""
    kernels = {step.choice.op: step.choice.kernel for step in whole.steps}
    return Ways(graph, [Choice(op, kernels[op], ()) for op in graph.ops], whole.isa, fed, known_forms(whole))


def price(graph: Graph, whole: CProgram, stripes: Sequence[Stripe]) -> float:
    """Estimates the share of instructions that stripes add to those of a graph's whole program."""
    names = {stripe.fed for stripe in stripes if stripe.fed}
    ways = ways_of(graph, whole, next((value for value in graph.inputs if value.name in names), None))
    return sum(map(ways.counted, stripes)) / max(ways.instructions, 1)


@dataclass(frozen=True)
class Search:
    """The search for the plan of one graph."""

    paths: Paths
    whole: CProgram

    @property
    def ways(self) -> Ways:
        """The ways to run parts of the graph."""
        return self.paths.ways

    def plan(self, stripes: tuple[Stripe, ...]) -> Plan:
        """Makes the plan with stripes."""
        return plan_with(self.ways.graph, self.whole, stripes, self.ways.known)

    def simplest(self) -> Plan:
        """Gives the plan without stripes or, where the input is handed over row by row, the cheapest one."""
        stripes = self.paths.simplest
        if stripes is None:
            raise _not_by_rows(self.ways.graph)
        return self.plan(stripes)

    def for_extra(self, budget: float, worth: int = 0) -> Plan:
        """Gives the smallest plan whose stripes cost no more than the budget, or else the simplest one, also where less than `worth`
        bytes would be saved."""
        simplest = self.simplest()
        budget = max(budget, self.ways.cost(simplest.stripes), self.counted(simplest))
        if not budget or (worth and self.paths.most - self.ways.floor() < worth):
            return simplest
        bound = self._least_bound(budget)
        if worth and self.paths.most - bound < worth // 2:
            return simplest
        best = self._smallest_near(bound, budget, simplest)
        if best.stripes and best.bytes > FAR * bound and len(self.ways.whole) <= MANY:
            best = self._nearby(best, budget)
        return best if simplest.bytes - best.bytes >= worth else simplest

    def _smallest_near(self, bound: int, budget: float, simplest: Plan) -> Plan:
        """Gives the smallest plan for bounds near one that costs no more than the budget, counted over all that happens in it; the simplest
        one if there is none. Where first sight says too little of a cost, it is asked for less."""
        allowed = budget
        for _ in range(COUNTED_AGAIN):
            near = dict.fromkeys(self.paths.cheapest(int(bound * more), allowed) for more in NEAR_BOUNDS)
            plans = [self.plan(stripes) for stripes in near if stripes is not None]
            fitting = [plan for plan in plans if self.counted(plan) <= budget]
            if fitting:
                return min([simplest, *fitting], key=lambda plan: plan.bytes)
            least = min(map(self.counted, plans), default=0.0)
            allowed *= min(budget / least, 1.0) * LESS if least > 0 else LESS
        return simplest

    def counted(self, plan: Plan) -> float:
        """Estimates the instructions that the stripes of a plan add, from all that happens in them."""
        arranged = plan.arranged
        regions = arranged.regions.values() if isinstance(arranged, Arranged) else ()
        return sum(
            self.ways.counted(one, region.schedule.events)
            for one, region in zip(plan.stripes, regions, strict=False)
        )

    def _nearby(self, plan: Plan, budget: float) -> Plan:
        """Gives the smallest of a plan and those that are like it but for where one stripe begins or ends, or its rows: what is live at
        once can be much the same, and lie together better."""
        tried = 0
        for _ in plan.stripes:
            others = [
                stripes
                for stripes in dict.fromkeys(self.ways.like(plan.stripes))
                if self.ways.cost(stripes) <= budget
            ][: NEARBY - tried]
            tried += len(others)
            made = [other for other in map(self.plan, others) if self.counted(other) <= budget]
            best = min([plan, *made], key=lambda one: one.bytes)
            if best is plan:
                break
            plan = best
        return plan

    def _least_bound(self, budget: float = math.inf) -> int:
        """The least bound, to a quarter of a percent, that can be kept at some price; that of the simplest plan can be."""
        low, high = self.ways.floor(), self.paths.most
        while high - low > max(high // 400, ALIGNMENT):
            middle = math.isqrt(low * high) if 0 < 2 * low < high else (low + high) // 2
            stripes = self.paths.cheapest(middle, budget, any_will_do=True)
            low, high = (low, middle) if stripes is not None else (middle, high)
        return high

    def within(self, limit: int, beside: int) -> Plan:
        """Gives the cheapest plan that fits."""
        room = limit - beside
        simplest = self.simplest()
        if simplest.bytes <= room:
            return simplest
        bound = room
        while bound > 0 and (stripes := self.paths.cheapest(bound)) is not None:
            plan = self.plan(stripes)
            if plan.bytes <= room:
                return plan
            bound -= max((plan.bytes - room) // 2, ALIGNMENT)
        smallest = simplest
        for plan in self._by_price():
            if plan.bytes <= room:
                return plan
            smallest = min(smallest, plan, key=lambda one: one.bytes)
        smallest = self._smallest(smallest).settled
        if smallest.bytes <= room:
            return smallest
        raise self._too_small(limit, beside, simplest.bytes, smallest.bytes)

    def _by_price(self) -> Iterator[Plan]:
        """The smallest plans for prices that rise: what is live at once is an estimate, and a plan may lie together better than that."""
        yield from (self.for_extra(share * self.ways.instructions) for share in PRICES)

    def _smallest(self, simplest: Plan) -> Plan:
        """The smallest of the plans for bounds from the least to that of the whole ops: what is live at once is not yet a plan, and now
        and then a larger bound has the smaller one."""
        least, most = max(self._least_bound(), 1), self.paths.most
        bounds = [int(least * (most / least) ** (step / BOUNDS_TRIED)) for step in range(BOUNDS_TRIED)]
        found = [self.paths.cheapest(bound) for bound in bounds]
        tried = dict.fromkeys(stripes for stripes in found if stripes)
        return min([simplest, *map(self.plan, tried)], key=lambda plan: plan.bytes)

    def _too_small(self, limit: int, beside: int, simplest: int, smallest: int) -> PillionError:
        """The error where nothing fits: with the least that would do."""
        ways, least = self.ways, smallest + beside
        blocking = max(
            (i for i, why in enumerate(ways.why) if why), key=lambda i: ways.whole[i].bytes, default=None
        )
        op = ways.graph.ops[blocking] if blocking is not None else None
        reason = (
            f"; {op.kind} `{op.name}` takes {ways.whole[blocking].bytes:,} bytes: {ways.why[blocking]}"
            if op and blocking is not None and ways.whole[blocking].bytes > limit - beside
            else ""
        )
        return PillionError(
            f"`{ways.graph.name}` does not fit into {limit:,} bytes of RAM",
            rule="--max-ram is at least what the smallest plan needs",
            here=f"{simplest + beside:,} bytes without stripes, {least:,} with{reason}",
            help=f"--max-ram {least}, a smaller input, or a narrower model",
        )


def _not_by_rows(graph: Graph) -> PillionError:
    return PillionError(
        f"`{graph.name}` cannot be handed its input row by row",
        rule="the ops that read the input can run together a few rows at a time",
        here="no region of ops from the first that reads it on makes a result that has rows",
        help="leave --rows-in out",
    )
