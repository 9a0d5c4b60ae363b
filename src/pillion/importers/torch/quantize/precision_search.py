# SPDX-License-Identifier: Apache-2.0
"""Chooses the tensors that need 16 bits for a wished quality, or that fit into bounds: quality is measured on samples,
and costs are those of lowered programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, log10
from typing import Any

from torch.fx import GraphModule

from pillion.errors import PillionError
from pillion.host_io.progress import stage
from pillion.importers.torch.fx_nodes import module_of
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.quantize.precision import names_of
from pillion.importers.torch.quantize.width_costs import WidthCosts
from pillion.importers.torch.quantize.width_trials import (
    WidthTrials,
    measured_quality,
    simulated_noise,
)
from pillion.ir.precision_choice import ChosenTensor, CostBound, PlanCost, PrecisionChoice
from pillion.ir.verdict import Verdict, all_ok, failed_rules

TRIED = 16
"""Parts of a plan that are left out, or added, on trial."""
NEAR = 0.5
"""Decibels by which simulated noise may mispredict the quality without a part."""
NARROWED = 6
"""Plans that are made with ever fewer tensors for a bound."""
Price = Callable[[GraphModule], PlanCost]
Plan = frozenset[str]
NARROW: Plan = frozenset()


@dataclass(frozen=True)
class PrecisionGoal:
    """The quality that a plan must have, if any, and the bounds of its costs."""

    quality: float | None
    bounds: tuple[CostBound, ...]
    price: Price


class PrecisionSearch:
    """Finds the cheapest tensors with which a program has a quality, or the best that fit into bounds."""

    def __init__(
        self, trials: WidthTrials, judges: Sequence[WidthTrials], goal: PrecisionGoal, judged_by: str
    ) -> None:
        self.trials, self.judges, self.goal, self.judged_by = trials, judges, goal, judged_by
        self.tensors = tuple(trials.tensors)
        self.wide: Plan = frozenset(self.tensors)
        self._qualities: dict[Plan, float] = {}
        self._costs: dict[Plan, PlanCost] = {}
        self.noise: dict[str, float] = {}

    def choose(self) -> tuple[PrecisionChoice, list[Any]]:
        """Returns the choice and the observers of its tensors."""
        with stage("choosing 16-bit tensors"):
            return self._choice(self._chosen())

    def _choice(self, chosen: Plan) -> tuple[PrecisionChoice, list[Any]]:
        order = [name for name in self.tensors if name in chosen]
        choice = PrecisionChoice(
            wish=self.goal.quality,
            before=self.quality(NARROW),
            after=self.quality(chosen),
            everywhere=self.quality(self.wide),
            tensors=tuple(self._effect(name, chosen) for name in order),
            candidates=len(self.tensors),
            cost=self.cost(chosen),
            cost_before=self.cost(NARROW),
            cost_everywhere=self.cost(self.wide),
            judges=self.judged_by,
            verdicts=tuple(self._verdicts(chosen)),
        )
        return choice, [self.trials.tensors[name] for name in order]

    def quality(self, plan: Plan) -> float:
        """Returns the measured quality of a plan in dB."""
        if plan not in self._qualities:
            self._qualities[plan] = measured_quality(self.judges, plan)
        return self._qualities[plan]

    def cost(self, plan: Plan) -> PlanCost:
        """Returns the costs of the lowered program of a plan."""
        if plan not in self._costs:
            self._costs[plan] = self.goal.price(self.trials.converted(plan))
        return self._costs[plan]

    def _chosen(self) -> Plan:
        wish = self.goal.quality
        if not self._fits(NARROW) or not self.tensors:
            return NARROW  # compilation says what is missing
        if wish is not None and self.quality(NARROW) >= wish:
            return NARROW
        if wish is not None and self.quality(self.wide) < wish:
            raise self._unreachable(wish)
        self._rank()
        self.costs = WidthCosts(
            self.trials.prepared,
            self.trials.computations,
            self.tensors,
            lambda some: self.cost(frozenset(some)),
        )
        path = list(self.costs.path(self.noise))
        if wish is None:
            return self._best_within_bounds(path)
        cheapest = plan = self._cheapest(path, wish)
        allowed = self.wide
        for _ in range(NARROWED):
            if self._fits(plan):
                return plan
            allowed -= {max(plan, key=self._bytes)}
            if self.quality(allowed) < wish:
                break
            plan = self._cheapest([*(some for some in path if some <= allowed), allowed], wish)
        best = self._best_within_bounds(path)
        if self.quality(best) >= wish:
            return best
        raise self._contradicted(wish, cheapest, best)

    def _verdicts(self, plan: Plan) -> Iterator[Verdict]:
        cost, narrow = self.cost(plan), self.cost(NARROW)
        return (bound.verdict(cost, narrow) for bound in self.goal.bounds)

    def _fits(self, plan: Plan) -> bool:
        return all_ok(self._verdicts(plan))

    def _rank(self) -> None:
        """Simulates the noise that each tensor adds in 8 bits."""
        self.floor = simulated_noise(self.judges, self.wide)
        with stage("simulating 8 bits", len(self.tensors)) as advance:
            for number, name in enumerate(self.tensors, start=1):
                self.noise[name] = max(simulated_noise(self.judges, self.wide - {name}) - self.floor, 0.0)
                advance(number, len(self.tensors))

    def _predicted_noise(self, plan: Plan) -> float:
        return self.floor + sum(noise for name, noise in self.noise.items() if name not in plan)

    def _cheapest(self, path: Sequence[Plan], wish: float) -> Plan:
        """Returns the cheapest plan found that has a quality; the last of the path has it."""
        low, high = 0, len(path) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.quality(path[middle]) >= wish else (middle + 1, high)
        plan = self._without_useless(path[low], wish)
        return min((plan, path[-1]), key=lambda one: self.cost(one).time)

    def _without_useless(self, plan: Plan, wish: float) -> Plan:
        """Leaves out parts without which a plan still has a quality and takes less time."""
        tried = 0
        for part in self.costs.savings(plan):
            less = plan - part
            if tried == TRIED or less == plan:
                continue
            before, after = self._predicted_noise(plan), self._predicted_noise(less)
            lost = 10 * log10(after / before) if before else 0.0
            if self.quality(plan) - lost < wish - NEAR:
                continue
            tried += 1
            if self.cost(less).time < self.cost(plan).time and self.quality(less) >= wish:
                plan = less
        return plan

    def _best_within_bounds(self, path: Sequence[Plan]) -> Plan:
        """Returns a plan that fits, of the most quality found."""
        low, high = 0, len(path) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(path[middle]) else (low, middle - 1)
        plan = path[low]
        left = sorted(self.wide - plan, key=lambda name: -self.noise[name])
        for name in left[:TRIED]:
            if self._fits(plan | {name}):
                plan |= {name}
        return max((NARROW, plan), key=self.quality)

    def _effect(self, name: str, plan: Plan) -> ChosenTensor:
        """Returns what a tensor gains and costs beside the others of a plan."""
        less = plan - {name}
        before, after = (simulated_noise(self.judges, some) for some in (less, plan))
        now, then = self.cost(plan), self.cost(less)
        return ChosenTensor(
            self.name(name),
            10 * log10(before / after) if before and after else inf if before else 0.0,
            now.time - then.time,
            now.ram_bytes - then.ram_bytes,
            now.flash_bytes - then.flash_bytes,
        )

    def _bytes(self, name: str) -> int:
        """Returns the size of the largest tensor with an observer."""
        return max(
            (self.costs.elements[i] for i, made in enumerate(self.costs.results) if made == name), default=0
        )

    def name(self, tensor: str) -> str:
        """Returns a name by which `--int16` finds a tensor, and no other if there is such a name. Modules come first,
        because training has other ops."""
        observer, prepared = self.trials.tensors[tensor], self.trials.prepared
        bearers: dict[str, set[Any]] = {}
        for computation in self.trials.computations:
            for name in filter(None, names_of(computation)):
                bearers.setdefault(name, set()).add(observer_of(prepared, computation.result))
        names = [name for name, observers in bearers.items() if observer in observers]
        modules = {module_of(node) for c in self.trials.computations for node in c.calls}
        return min(names, key=lambda name: (len(bearers[name]), name not in modules))

    def _unreachable(self, wish: float) -> PillionError:
        before, everywhere = self.quality(NARROW), self.quality(self.wide)
        return PillionError(
            f"no choice of 16-bit tensors reaches {wish:g} dB",
            rule="--min-quality is at most what 16 bits everywhere reach against float, on samples of the calibration data",
            here=f"{before:.1f} dB in 8 bits, {everywhere:.1f} dB with 16 bits in all {len(self.tensors)} tensors that have such forms, by {self.judged_by}",
            help=f"--min-quality {max(everywhere - 1, 0):.0f}dB, or more calibration data: values beyond its ranges are clipped in 16 bits, too",
        )

    def _contradicted(self, wish: float, cheapest: Plan, best: Plan) -> PillionError:
        """Returns the error for bounds of which no plan found holds all."""
        cost, narrow = self.cost(cheapest), self.cost(NARROW)
        failed = failed_rules(self._verdicts(cheapest))
        more = ceil(100 * (cost.time / narrow.time - 1))
        ways = {"--max-time": f"--max-time +{more}%", "--max-ram": f"--max-ram {cost.ram_bytes}"}
        looser = " ".join(ways.get(verdict.rule.split()[0], verdict.rule.split()[0]) for verdict in failed)
        return PillionError(
            f"no choice of 16-bit tensors reaches {wish:g} dB within {' and '.join(v.rule for v in failed)}",
            rule="one plan holds all bounds: quality, time and memory",
            here=f"{wish:g} dB need {', '.join(f'{v.got}, wanted {v.wanted}' for v in failed)}; within the bounds, {self.quality(best):.1f} dB",
            help=f"--min-quality {floor(self.quality(best))}dB, or {looser}",
        )
