# SPDX-License-Identifier: Apache-2.0
"""Chooses the tensors that get 16 bits, for a required quality or within bounds. Quality is measured on samples;
costs come from lowered programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf, isinf, log10

import numpy as np
from torch.fx import GraphModule

from pillion.errors import PillionError
from pillion.host_io.progress import stage
from pillion.importers.torch.quantize.width_costs import WidthCosts
from pillion.importers.torch.quantize.width_plans import cheapest_plans, decibels
from pillion.importers.torch.quantize.width_trials import (
    FloatRunner,
    WidthTrials,
    clipping_noise,
    measured_quality,
    simulated_quality,
)
from pillion.ir.precision_choice import (
    ChosenTensor,
    CostBound,
    FloatRuns,
    MetricChange,
    PlanCost,
    PrecisionChoice,
)
from pillion.ir.verdict import Verdict, all_ok, failed_rules

TRIED = 16
"""Most plans to measure, and most tensors to add on trial."""
NEAR = 1.0
"""Decibels by which a plan may exceed its expected quality."""
OFFERED = 1.0
"""Decibels by which a refusal's offered quality stays below 16 bits everywhere; it lets some tensors keep 8 bits."""
NARROWED = 6
"""Most plans to make with ever fewer tensors, to meet a bound."""
Price = Callable[[GraphModule], PlanCost]
Plan = frozenset[str]
NARROW: Plan = frozenset()


@dataclass(frozen=True)
class PrecisionGoal:
    """The quality and the metric that a plan must have, if any, and the bounds of its costs."""

    quality: float | None
    bounds: tuple[CostBound, ...]
    price: Price
    metric: Callable[[GraphModule, FloatRuns], MetricChange] | None = None

    @property
    def maximizes_quality(self) -> bool:
        """Whether the search maximizes quality within the bounds, instead of meeting a required quality."""
        return self.quality is None and self.metric is None


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
        self._metrics: dict[Plan, MetricChange] = {}
        self._noises: dict[Plan, float] = {}
        self.noise: dict[str, float] = {}
        self.costs = WidthCosts(trials.prepared, trials.computations, self.tensors)

    def choose(self) -> tuple[PrecisionChoice, Plan]:
        """Returns the choice, and its tensors by the names that they have in trials."""
        with stage("choosing 16-bit tensors"):
            return self._choice(self._chosen())

    def _choice(self, chosen: Plan) -> tuple[PrecisionChoice, Plan]:
        order = [name for name in self.tensors if name in chosen]
        choice = PrecisionChoice(
            required_quality=self.goal.quality,
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
            metrics=tuple(self.metric(plan) for plan in (NARROW, chosen, self.wide))
            if self.goal.metric
            else (),
        )
        return choice, chosen

    def quality(self, plan: Plan) -> float:
        """Returns the quality of a plan in dB: as measured, less the clipping that further samples are expected to meet."""
        if plan not in self._qualities:
            measured, clipping = measured_quality(self.judges, plan), clipping_noise(self.trials, plan)
            noise = 10 ** (-measured / 10) + clipping
            self._qualities[plan] = -10 * log10(noise) if clipping else measured
        return self._qualities[plan]

    @cached_property
    def floor(self) -> float:
        """The noise-to-signal ratio with 16 bits in all tensors, which only weights cause. It is measured, because
        corrected biases remove most of the noise that a simulation of weights shows."""
        return 10 ** (-self.quality(self.wide) / 10)

    def _noise(self, plan: Plan) -> float:
        """Returns the noise-to-signal ratio of a plan: the floor, plus simulated rounding and expected clipping of
        8-bit tensors."""
        least, noise = (self._noise_of_tensors(one) for one in (self.wide, plan))
        return self.floor + max(noise - least, 0.0)

    def _noise_of_tensors(self, plan: Plan) -> float:
        if plan not in self._noises:
            quality = simulated_quality([self.trials], plan, clips=True, rounds_weights=False)
            self._noises[plan] = 10 ** (-quality / 10)
        return self._noises[plan]

    def metric(self, plan: Plan) -> MetricChange:
        """Returns the metric of the program that a plan becomes, measured by running it."""
        assert self.goal.metric is not None
        if plan not in self._metrics:
            trials = self.trials
            shapes = tuple(tuple(x.shape) for x in trials.calibrating[0])
            floats = FloatRunner(trials.in_float, shapes)
            self._metrics[plan] = self.goal.metric(trials.final(plan), floats)
        return self._metrics[plan]

    def _is_good(self, plan: Plan) -> bool:
        """Whether a plan has the required quality and metric."""
        required = self.goal.quality
        is_close = required is None or self.quality(plan) >= required
        return is_close and (self.goal.metric is None or self.metric(plan).is_ok)

    def cost(self, plan: Plan) -> PlanCost:
        """Returns the costs of the lowered program of a plan."""
        if plan not in self._costs:
            self._costs[plan] = self.goal.price(self.trials.converted(plan))
            self.costs.learn(plan, self._costs[plan].by_op)
        return self._costs[plan]

    def _chosen(self) -> Plan:
        maximizes_quality = self.goal.maximizes_quality
        if not self._fits(NARROW) or not self.tensors:
            return NARROW  # compilation reports the bound that is missed
        if not maximizes_quality and self._is_good(NARROW):
            return NARROW
        if not self._is_good(self.wide):
            raise self._unreachable()
        self._rank()
        for plan in (NARROW, self.wide, *(frozenset(self.tensors[first::2]) for first in (0, 1))):
            self.cost(plan)  # of the last two, each layer reads one width and makes the other in one
        if maximizes_quality:
            return self._best_within_bounds()
        cheapest = plan = self._cheapest(self.wide)
        allowed = self.wide
        for _ in range(NARROWED):
            if self._fits(plan):
                return plan
            allowed -= {max(plan, key=self._bytes)}
            if not self._is_good(allowed):
                break
            plan = self._cheapest(allowed)
        best = self._best_within_bounds()
        if self._is_good(best):
            return best
        raise self._contradicted(cheapest, best)

    def _verdicts(self, plan: Plan) -> Iterator[Verdict]:
        cost, narrow = self.cost(plan), self.cost(NARROW)
        return (bound.verdict(cost, narrow) for bound in self.goal.bounds)

    def _fits(self, plan: Plan) -> bool:
        return all_ok(self._verdicts(plan))

    def _rank(self) -> None:
        """Simulates the noise that each tensor adds in 8 bits."""
        with stage("simulating 8 bits", len(self.tensors)) as advance:
            for number, name in enumerate(self.tensors, start=1):
                self.noise[name] = self._noise(self.wide - {name}) - self.floor
                advance(number, len(self.tensors))

    def _predicted(self, plan: Plan) -> float:
        """Returns the quality in dB of a plan if the noise of its tensors in 8 bits adds up."""
        added = sum(noise for name, noise in self.noise.items() if name not in plan)
        return float(decibels(np.array(self.floor + added)))

    def _expected(self, plan: Plan) -> float:
        """Returns the expected quality of a plan in dB: the prediction, corrected by the error of predictions for
        measured plans of similar quality."""
        measured = sorted((self._predicted(one), quality) for one, quality in self._qualities.items())
        predicted, qualities = np.array(measured).T
        expected = self._predicted(plan)
        return expected + float(np.interp(expected, predicted, qualities - predicted))

    def _learn(self, plan: Plan) -> None:
        """Measures a plan, and scales the noise of its 8-bit tensors by the ratio of measured to expected noise."""
        expected = self._expected(plan)
        ratio = 10 ** ((expected - self.quality(plan)) / 10)
        self.noise |= {name: noise * ratio for name, noise in self.noise.items() if name not in plan}

    def _plans(self, allowed: Plan) -> list[tuple[Plan, float]]:
        """Returns the cheapest plan for each amount of noise with its estimated time, the cheapest first."""
        return cheapest_plans(self.costs, self.noise, self.floor, allowed)

    def _cheapest(self, allowed: Plan) -> Plan:
        """Returns the cheapest good plan found among the allowed tensors, which are good if all have 16 bits."""
        best, tried = allowed, {allowed}
        for _ in range(TRIED):
            plan = self._next(best, tried, allowed)
            if plan is None:
                break
            tried.add(plan)
            if self.cost(plan).time < self.cost(best).time:
                if self.goal.quality is not None:
                    self._learn(plan)
                best = plan if self._is_good(plan) else best
        return best

    def _next(self, best: Plan, tried: set[Plan], allowed: Plan) -> Plan | None:
        """Returns the next plan to try, cheaper than the best: the cheapest plan expected to have the required
        quality. A metric cannot be predicted; for it, the middle one of the plans with less noise than all failed
        ones."""
        required, limit = self.goal.quality, self.cost(best).time
        plans = [plan for plan, time in self._plans(allowed) if time < limit and plan not in tried]
        if required is not None:
            likely = [plan for plan in plans if self._expected(plan) >= required]
            plans = likely or [plan for plan in plans if self._expected(plan) >= required - NEAR]
        if self.goal.metric is None:
            return plans[0] if plans else None
        least = max((self._predicted(one) for one in self._metrics if not self._is_good(one)), default=-inf)
        plans = [plan for plan in plans if self._predicted(plan) > least]
        return plans[len(plans) // 2] if plans else None

    def _best_within_bounds(self) -> Plan:
        """Returns a plan that fits, of the most quality found."""
        plans = [NARROW, *(plan for plan, _ in self._plans(self.wide))]
        low, high = 0, len(plans) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(plans[middle]) else (low, middle - 1)
        plan = plans[low]
        left = sorted(self.wide - plan, key=lambda name: -self.noise[name])
        for name in left[:TRIED]:
            if self._fits(plan | {name}):
                plan |= {name}
        return max((NARROW, plan), key=self.quality)

    def _effect(self, name: str, plan: Plan) -> ChosenTensor:
        """Returns the gain and cost of one tensor of a plan: the difference to the plan without it."""
        less = plan - {name}
        before, after = (self._noise(some) for some in (less, plan))
        now, then = self.cost(plan), self.cost(less)
        return ChosenTensor(
            self.trials.name(name),
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

    def _wishes(self) -> str:
        """Returns the required quality and metric as text."""
        required = self.goal.quality
        quality = () if required is None else (f"{required:g} dB",)
        metric = () if self.goal.metric is None else (f"--max-drop {100 * self.metric(NARROW).most:g}%",)
        return " and ".join((*quality, *metric))

    def _reached(self, plan: Plan) -> str:
        """Returns the quality and the metric of a plan as text."""
        metric = (self.metric(plan).text,) if self.goal.metric else ()
        return ", ".join((f"{self.quality(plan):.1f} dB", *metric))

    def _weaker_options(self, plan: Plan, room: float = 0.0) -> str:
        """Returns weaker options, which a plan satisfies, for the goals that it misses."""
        required, options = self.goal.quality, []
        if required is not None and self.quality(plan) < required:
            lower = floor(10 * (self.quality(plan) - room)) / 10
            options.append(f"--min-quality {lower:g}dB" if lower > 0 else "no --min-quality")
        if self.goal.metric is not None and not self.metric(plan).is_ok:
            drop = self.metric(plan).drop
            options.append(
                "no --max-drop" if isinf(drop) else f"--max-drop {ceil(round(1e4 * drop, 6)) / 100:g}%"
            )
        return " ".join(options)

    def _unreachable(self) -> PillionError:
        return PillionError(
            f"no choice of 16-bit tensors reaches {self._wishes()}",
            rule="--min-quality and --max-drop are at most what 16 bits everywhere reach against float",
            here=f"{self._reached(NARROW)} in 8 bits, {self._reached(self.wide)} with 16 bits in all {len(self.tensors)} tensors that have such forms, by {self.judged_by}",
            help=f"{self._weaker_options(self.wide, OFFERED)}. {self._cause()}",
        )

    def _cause(self) -> str:
        """Returns a hint: why 16 bits everywhere miss the goal, and ways to raise their quality."""
        ranges = "Values beyond the ranges of the calibration data are clipped in 16 bits, too: more of it may raise it"
        if (required := self.goal.quality) is None:
            return ranges
        typical = measured_quality(self.judges, self.wide, errors=0.0)
        if self.quality(self.wide) < required <= typical:
            return f"These samples have {typical:.1f} dB, the rest is a margin for others: more varied calibration data may narrow it"
        exact = simulated_quality(self.judges, self.wide, rounds_weights=False)
        if required <= exact < inf:
            return f"With weights that are not rounded to 8 bits, it would be {exact:.1f} dB: --equalize or `pillion train` may raise it"
        return ranges

    def _contradicted(self, cheapest: Plan, best: Plan) -> PillionError:
        """Returns the error for goals and bounds that no plan satisfies together."""
        cost, narrow = self.cost(cheapest), self.cost(NARROW)
        failed = failed_rules(self._verdicts(cheapest))
        more = ceil(100 * (cost.time / narrow.time - 1))
        ways = {"--max-time": f"--max-time +{more}%", "--max-ram": f"--max-ram {cost.ram_bytes}"}
        looser = " ".join(ways.get(verdict.rule.split()[0], verdict.rule.split()[0]) for verdict in failed)
        return PillionError(
            f"no choice of 16-bit tensors reaches {self._wishes()} within {' and '.join(v.rule for v in failed)}",
            rule="one plan holds all bounds: quality, metric, time and memory",
            here=f"{self._wishes()} need {', '.join(f'{v.got}, wanted {v.wanted}' for v in failed)}; within the bounds, {self._reached(best)}",
            help=f"{self._weaker_options(best)}, or {looser}",
        )
