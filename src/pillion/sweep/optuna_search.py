# SPDX-License-Identifier: Apache-2.0
"""Search for the best variants: Optuna proposes axis values, workers compile and measure them.

The store keeps all proposals, and a continued search replays them with the stored results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_text
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.sweep.axes import Axis, AxisRange, Value
from pillion.sweep.job_result import JobResult
from pillion.sweep.jobs import JobFactory
from pillion.sweep.runner import Runner, SweepRow
from pillion.sweep.store import Store
from pillion.sweep.sweep_file import ModelPlan, SearchPlan, SweepFile

_FILE = "search.json"
_MOST_BYTES = 1 << 26
_MODEL = "model"
Point = Mapping[str, float]
"""A proposal: a number per axis, from its range or as the index of a value."""


@dataclass(frozen=True)
class SearchTrials:
    """The trials of a search: its subject, and the point of each."""

    space: str
    points: tuple[Mapping[str, float], ...]


def search_plan_of(plan: SweepFile) -> SearchPlan:
    """Returns the search plan of a sweep file. Raises if it has none."""
    if plan.search is None:
        raise PillionError(
            f"{plan.path} does not say what to search for",
            rule="[search] names what to maximize or minimize, and limits",
            here="--search without a [search]",
            help='[search]\nminimize = "instructions"\nat_most = { ram_bytes = "256 KB" }',
        )
    return plan.search


def run_search(plan: SweepFile, trials: int, runner: Runner) -> list[SweepRow]:
    """Runs a number of trials, stored ones included, and returns a row for each distinct variant."""
    search = _Search(plan, search_plan_of(plan), runner)
    runner.progress.total = trials
    while search.told < trials:
        while search.asked < trials and search.can_start_trial:
            search.ask()
        if search.told < trials and search.running:
            search.report_result(runner.finished())
    return sort_rows(list(search.rows.values()), search.wants)


def sort_rows(rows: list[SweepRow], wants: SearchPlan) -> list[SweepRow]:
    """Sorts rows for the reader: rows within the limits first, by the first goal; failures last."""
    name, is_large = next(iter(wants.goals.items()))

    def place(row: SweepRow) -> tuple[bool, bool, float]:
        value = row.result.value(name)
        return (
            value is None,
            not keeps_limits(row.result, wants),
            (-value if is_large else value) if value else 0,
        )

    return sorted(rows, key=place)


class _Search:
    """An Optuna study, and the trials that wait for a job."""

    def __init__(self, plan: SweepFile, wants: SearchPlan, runner: Runner) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.plan, self.wants, self.runner = plan, wants, runner
        self.study = optuna.create_study(
            directions=["maximize" if is_large else "minimize" for is_large in wants.goals.values()],
            sampler=optuna.samplers.TPESampler(seed=wants.seed),
        )
        self.points = _earlier_points(plan, runner.store)
        for point in self.points:
            self.study.enqueue_trial(dict(point))
        self._jobs = JobFactory()
        self.rows: dict[str, SweepRow] = {}
        self.running: dict[str, list[Any]] = {}
        """Waiting trials by job key."""
        self.asked = self.told = 0

    @property
    def can_start_trial(self) -> bool:
        """Whether another trial may start: earlier trials come first, and each worker has one job at a time."""
        return not self.running or len(self.running) < self.runner.workers.count

    def ask(self) -> None:
        """Takes the next proposal, and reports its result at once if it is known."""
        trial = self.study.ask()
        model, values = _suggest_variant(trial, self.plan)
        self.asked += 1
        if self.asked > len(self.points):
            self.points.append(dict(trial.params))
            _store_points(self.plan, self.runner.store, self.points)
        job = self._jobs.job(model, values, self.plan.measure)
        if job.key in self.running:
            self.running[job.key].append(trial)
            return
        result = self.rows[job.key].result if job.key in self.rows else self.runner.known(job)
        if result is not None:
            self.rows.setdefault(job.key, SweepRow(job, result))
            self._tell_study(trial, result)
            self.runner.progress.note(result, is_kept=True)
            return
        self.runner.workers.submit(job)
        self.running[job.key] = [trial]

    def report_result(self, row: SweepRow) -> None:
        """Reports a result to all trials that wait for its job."""
        self.rows[row.job.key] = row
        trials = self.running.pop(row.job.key)
        for trial in trials:
            self._tell_study(trial, row.result)
        for _ in trials[1:]:
            self.runner.progress.note(row.result, is_kept=True)

    def _tell_study(self, trial: Any, result: JobResult) -> None:
        from optuna.trial import TrialState

        self.told += 1
        values = [v for name in self.wants.goals if (v := result.value(name)) is not None]
        excess = {name: much for name, much in limit_excesses(result, self.wants).items() if much is not None}
        limits = len(self.wants.at_most) + len(self.wants.at_least)
        if len(values) < len(self.wants.goals) or len(excess) < limits:
            self.study.tell(trial, state=TrialState.FAIL)
            return
        for name, much in excess.items():
            trial.set_constraint(name, much)
        self.study.tell(trial, values)


def limit_excesses(result: JobResult, wants: SearchPlan) -> dict[str, float | None]:
    """Returns how far each limit is exceeded, as a fraction of it: 0 or less if it is met, None if unknown."""
    excesses: dict[str, float | None] = {}
    for sign, which, limits in ((1, "at_most", wants.at_most), (-1, "at_least", wants.at_least)):
        for name, limit in limits.items():
            value = result.value(name)
            excesses[f"{which}.{name}"] = (
                None if value is None else sign * (value - limit) / (abs(limit) or 1)
            )
    return excesses


def keeps_limits(result: JobResult, wants: SearchPlan) -> bool:
    """Whether a variant is known to meet all limits."""
    return all(excess is not None and excess <= 0 for excess in limit_excesses(result, wants).values())


def _suggest_variant(trial: Any, plan: SweepFile) -> tuple[ModelPlan, dict[str, Value]]:
    """Returns the model and axis values that the optimizer proposes."""
    models = plan.models
    model = models[trial.suggest_categorical(_MODEL, range(len(models))) if len(models) > 1 else 0]
    several = len(models) > 1
    return model, {
        key: _suggest_value(trial, f"{model.name}: {key}" if several and key in model.axes else key, axis)
        for key, axis in plan.axes_of(model).items()
    }


def _suggest_value(trial: Any, name: str, axis: Axis) -> Value:
    if isinstance(axis, AxisRange):
        return _suggest_in_range(trial, name, axis)
    if len(axis) == 1:
        return axis[0]
    is_ordered = all(isinstance(choice, (int, float)) and not isinstance(choice, bool) for choice in axis)
    if is_ordered:
        return sorted(axis)[trial.suggest_int(name, 0, len(axis) - 1)]
    return axis[trial.suggest_categorical(name, range(len(axis)))]


def _suggest_in_range(trial: Any, name: str, axis: AxisRange) -> Value:
    high = axis.high if axis.step is None else axis.values[-1]
    if axis.is_whole:
        return int(trial.suggest_int(name, axis.low, high, step=axis.step or 1, log=axis.log))
    suggestion = trial.suggest_float(name, axis.low, high, step=axis.step, log=axis.log)
    return round(float(suggestion), 12)


def _search_space_text(plan: SweepFile) -> str:
    """Returns the search space as text; earlier trials count only if it is unchanged."""
    wants = search_plan_of(plan)
    axes = {model.name: {k: repr(v) for k, v in plan.axes_of(model).items()} for model in plan.models}
    return json.dumps(
        {"axes": axes, "sources": [m.source for m in plan.models], "wants": as_plain_data(wants)}
    )


def _earlier_points(plan: SweepFile, store: Store) -> list[Point]:
    """Returns the points of an earlier search in the same space; none if its record is missing or damaged."""
    try:
        record = object_from_json(
            SearchTrials, parse_strict_json(read_text(store.folder / _FILE, "search", _MOST_BYTES))
        )
    except (PillionError, ValueError):
        return []
    points = record.points if record.space == _search_space_text(plan) else ()
    return [{name: int(x) if x.is_integer() else x for name, x in point.items()} for point in points]


def _store_points(plan: SweepFile, store: Store, points: list[Point]) -> None:
    record = as_plain_data(SearchTrials(_search_space_text(plan), tuple(points)))
    store.write(_FILE, json.dumps(record).encode())
