# SPDX-License-Identifier: Apache-2.0
"""A search for the best variants: Optuna proposes values for the axes, workers compile and measure, and it learns from the figures.

What was proposed is kept in the store. A search that goes on is told all of it again; results are there already."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pillion.errors import PillionError
from pillion.outside.declared import build, parse, plain
from pillion.outside.files import read_text
from pillion.sweep.axes import Axis, Range, Value
from pillion.sweep.jobs import Jobs
from pillion.sweep.plan import ModelPlan, Plan, SearchPlan
from pillion.sweep.result import Result
from pillion.sweep.runner import Row, Runner
from pillion.sweep.store import Store

_FILE = "search.json"
_MOST_BYTES = 1 << 26
_MODEL = "model"
Point = Mapping[str, float]
"""What was proposed: a number for each axis, that of a range or the index of a value."""


@dataclass(frozen=True)
class Proposed:
    """The trials of a search so far: what they were about, and the point of each."""

    space: str
    points: tuple[Mapping[str, float], ...]


def wanted(plan: Plan) -> SearchPlan:
    """Gives what a plan searches for; raises where it does not say."""
    if plan.search is None:
        raise PillionError(
            f"{plan.path} does not say what to search for",
            rule="[search] names what to maximize or minimize, and limits",
            here="--search without a [search]",
            help='[search]\nminimize = "instructions"\nat_most = { ram_bytes = "256 KB" }',
        )
    return plan.search


def run_search(plan: Plan, trials: int, runner: Runner) -> list[Row]:
    """Runs so many trials, those of an earlier search of the same included, and gives a row for each variant that came up."""
    search = _Search(plan, wanted(plan), runner)
    runner.progress.total = trials
    while search.told < trials:
        while search.asked < trials and search.is_idle:
            search.ask()
        if search.told < trials and search.running:
            search.hear(runner.finished())
    return in_order(list(search.rows.values()), search.wants)


def in_order(rows: list[Row], wants: SearchPlan) -> list[Row]:
    """Gives rows in the order in which a reader wants them: those within the limits first, by the first goal; failures last."""
    name, is_large = next(iter(wants.goals.items()))

    def place(row: Row) -> tuple[bool, bool, float]:
        value = row.result.value(name)
        return (
            value is None,
            not keeps_limits(row.result, wants),
            (-value if is_large else value) if value else 0,
        )

    return sorted(rows, key=place)


class _Search:
    """A study of Optuna's, and the trials that wait for a job."""

    def __init__(self, plan: Plan, wants: SearchPlan, runner: Runner) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.plan, self.wants, self.runner = plan, wants, runner
        self.study = optuna.create_study(
            directions=["maximize" if is_large else "minimize" for is_large in wants.goals.values()],
            sampler=optuna.samplers.TPESampler(seed=wants.seed),
        )
        self.points = _earlier(plan, runner.store)
        for point in self.points:
            self.study.enqueue_trial(dict(point))
        self._jobs = Jobs()
        self.rows: dict[str, Row] = {}
        self.running: dict[str, list[Any]] = {}
        """Job's key → the trials that wait for it."""
        self.asked = self.told = 0

    @property
    def is_idle(self) -> bool:
        """Whether another trial may be asked for: earlier ones come first, and each worker has one job at a time."""
        return not self.running or len(self.running) < self.runner.workers.count

    def ask(self) -> None:
        """Takes the next proposal; where its result is known, it is told at once."""
        trial = self.study.ask()
        model, values = _suggested(trial, self.plan)
        self.asked += 1
        if self.asked > len(self.points):
            self.points.append(dict(trial.params))
            _keep(self.plan, self.runner.store, self.points)
        job = self._jobs.job(model, values, self.plan.measure)
        if job.key in self.running:
            self.running[job.key].append(trial)
            return
        result = self.rows[job.key].result if job.key in self.rows else self.runner.known(job)
        if result is not None:
            self.rows.setdefault(job.key, Row(job, result))
            self._tell(trial, result)
            self.runner.progress.note(result, is_kept=True)
            return
        self.runner.workers.submit(job)
        self.running[job.key] = [trial]

    def hear(self, row: Row) -> None:
        """Tells all trials that wait for a job what came of it."""
        self.rows[row.job.key] = row
        trials = self.running.pop(row.job.key)
        for trial in trials:
            self._tell(trial, row.result)
        for _ in trials[1:]:
            self.runner.progress.note(row.result, is_kept=True)

    def _tell(self, trial: Any, result: Result) -> None:
        from optuna.trial import TrialState

        self.told += 1
        values = [v for name in self.wants.goals if (v := result.value(name)) is not None]
        excess = {name: much for name, much in excesses(result, self.wants).items() if much is not None}
        limits = len(self.wants.at_most) + len(self.wants.at_least)
        if len(values) < len(self.wants.goals) or len(excess) < limits:
            self.study.tell(trial, state=TrialState.FAIL)
            return
        for name, much in excess.items():
            trial.set_constraint(name, much)
        self.study.tell(trial, values)


def excesses(result: Result, wants: SearchPlan) -> dict[str, float | None]:
    """Gives by how much each limit is passed, as a part of it: nothing or less where it is kept, None where nobody knows."""
    found: dict[str, float | None] = {}
    for sign, which, limits in ((1, "at_most", wants.at_most), (-1, "at_least", wants.at_least)):
        for name, limit in limits.items():
            value = result.value(name)
            found[f"{which}.{name}"] = None if value is None else sign * (value - limit) / (abs(limit) or 1)
    return found


def keeps_limits(result: Result, wants: SearchPlan) -> bool:
    """Whether a variant is known to keep to all limits."""
    return all(one is not None and one <= 0 for one in excesses(result, wants).values())


def _suggested(trial: Any, plan: Plan) -> tuple[ModelPlan, dict[str, Value]]:
    """A model and a value for each of its axes, as the optimizer proposes them."""
    models = plan.models
    model = models[trial.suggest_categorical(_MODEL, range(len(models))) if len(models) > 1 else 0]
    several = len(models) > 1
    return model, {
        key: _value(trial, f"{model.name}: {key}" if several and key in model.axes else key, axis)
        for key, axis in plan.axes_of(model).items()
    }


def _value(trial: Any, name: str, axis: Axis) -> Value:
    if isinstance(axis, Range):
        return _in_range(trial, name, axis)
    if len(axis) == 1:
        return axis[0]
    is_ordered = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in axis)
    if is_ordered:
        return sorted(axis)[trial.suggest_int(name, 0, len(axis) - 1)]
    return axis[trial.suggest_categorical(name, range(len(axis)))]


def _in_range(trial: Any, name: str, axis: Range) -> Value:
    high = axis.high if axis.step is None else axis.values[-1]
    if axis.is_whole:
        return int(trial.suggest_int(name, axis.low, high, step=axis.step or 1, log=axis.log))
    found = trial.suggest_float(name, axis.low, high, step=axis.step, log=axis.log)
    return round(float(found), 12)


def _space(plan: Plan) -> str:
    """What a search is about, as a text: where that changes, earlier trials mean nothing."""
    wants = wanted(plan)
    axes = {model.name: {k: repr(v) for k, v in plan.axes_of(model).items()} for model in plan.models}
    return json.dumps({"axes": axes, "sources": [m.source for m in plan.models], "wants": plain(wants)})


def _earlier(plan: Plan, store: Store) -> list[Point]:
    """The points of an earlier search for the same; none where there was none, or its record is damaged."""
    try:
        found = build(Proposed, parse(read_text(store.folder / _FILE, "search", _MOST_BYTES)))
    except (PillionError, ValueError):
        return []
    points = found.points if found.space == _space(plan) else ()
    return [{name: int(x) if x.is_integer() else x for name, x in point.items()} for point in points]


def _keep(plan: Plan, store: Store, points: list[Point]) -> None:
    record = plain(Proposed(_space(plan), tuple(points)))
    store.write(_FILE, json.dumps(record).encode())
