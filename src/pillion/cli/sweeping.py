# SPDX-License-Identifier: Apache-2.0
"""What `pillion sweep` says: before, while and after it works."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pillion.cli import screen
from pillion.sweep.plan import Plan, check_trials
from pillion.sweep.runner import Progress
from pillion.sweep.search import wanted
from pillion.sweep.store import Store
from pillion.sweep.table import Cells, column
from pillion.sweep.variants import all_jobs, count_variants
from pillion.sweep.views import View

MOST_ROWS = 40
"""Rows that a screen is shown; longer tables are shown by their best rows."""


def check(plan: Plan, trials: int | None) -> None:
    """Raises where a plan cannot be swept, or searched with so many trials."""
    if trials is None:
        count_variants(plan)
    else:
        check_trials(trials)
        wanted(plan)


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Shows a bar on standard error, where that is a terminal, and where the workers can be watched."""
    told = Progress()
    if quiet:
        yield told
    elif not sys.stderr.isatty():
        told.changed = _say_dashboard
        yield told
    else:
        with _bar(told):
            yield told


def _say_dashboard(told: Progress) -> None:
    if told.dashboard and not told.done - told.kept:
        print(f"dashboard: {told.dashboard}", file=sys.stderr)
        told.changed = lambda _: None


@contextmanager
def _bar(told: Progress) -> Iterator[None]:
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("compiling"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(now: Progress) -> None:
            words = [f"{now.kept:,} kept"] * bool(now.kept) + [f"{now.failed:,} failed"] * bool(now.failed)
            words += [now.dashboard] * bool(now.dashboard)
            bar.update(task, completed=now.done, total=now.total, description=" · ".join(words))

        told.changed = show
        yield


def interrupted(told: Progress, folder: Path) -> str:
    """Says how far a sweep has come that was stopped, and how it goes on."""
    return (
        f"interrupted: {told.done:,} of {told.total:,} variants are done and kept in {folder}\n"
        "  help  the same command goes on from there"
    )


def show_preview(plan: Plan, store: Store, as_json: bool) -> None:
    """Shows all variants of a plan, and which of them are done."""
    jobs = all_jobs(plan)
    results = [store.find(job) for job in jobs]
    rows: list[Cells] = [
        {
            "variant": number,
            "model": job.model,
            **{column(key): _cell(value) for key, value in job.values.items()},
            "state": "to do" if found is None else "failed" if found.failure else "done",
        }
        for number, (job, found) in enumerate(zip(jobs, results, strict=True), 1)
    ]
    screen.show_rows(rows, list(dict.fromkeys(key for row in rows for key in row)), as_json)


def _cell(value: object) -> object:
    return "x".join(map(str, value)) if isinstance(value, tuple) else value


def show(view: View, as_json: bool) -> None:
    """Shows a sweep: as JSON all that is known of it, else a table that fits on a screen."""
    if as_json:
        print(json.dumps(view.facts, indent=2))
        return
    rows = [{**row, "variant": f"{row['variant']:,}{'*' * row['best']}"} for row in view.table]
    shown = [row for row in rows if not row["failure"]] if len(rows) <= MOST_ROWS else _best(rows)
    if shown:
        print(screen.table(shown, view.columns))
    elsewhere = len(rows) - len(shown) - view.facts["failed"]
    if elsewhere > 0:
        print(f"… and {elsewhere:,} more in table.csv")
    for failure in view.facts["failures"]:
        many = f"{failure['variants']:,} variants" if failure["variants"] > 1 else "1 variant"
        print(f"\n{many} failed (variant {failure['first_variant']:,}): {failure['message']}")
    _say_left_out(view.table)
    print(f"\n{_summary(view)}")


def _best(rows: list[Cells]) -> list[Cells]:
    return [row for row in rows if row["best"]][:MOST_ROWS]


def _say_left_out(table: list[Cells]) -> None:
    """Each reason once."""
    counted: dict[str, int] = {}
    for row in table:
        if row["left_out"]:
            counted[row["left_out"]] = counted.get(row["left_out"], 0) + 1
    for reason, count in counted.items():
        print(f"\nleft out of {count:,}: {reason}")


def _summary(view: View) -> str:
    facts = view.facts
    words = [f"{facts['variants']:,} variants", f"{facts['failed']:,} failed"]
    if facts["usable"]:
        words.append(f"{len(facts['best']):,} best ({facts['best_means']})")
    elif facts["failed"] < facts["variants"]:
        words.append("none within the limits")
    return f"{', '.join(words)}\n{facts['output']}: {', '.join(facts['written'])}, jobs/"
