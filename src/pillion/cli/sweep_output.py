# SPDX-License-Identifier: Apache-2.0
"""Output of `pillion sweep` before, during and after the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pillion.cli import console
from pillion.sweep.optuna_search import search_plan_of
from pillion.sweep.outputs import SweepOutput
from pillion.sweep.result_table import Cells, column_name
from pillion.sweep.runner import Progress
from pillion.sweep.store import Store
from pillion.sweep.sweep_file import SweepFile, check_trials
from pillion.sweep.variants import all_jobs, count_variants

MOST_ROWS = 40
"""Most rows on the screen; longer tables show only the best."""


def check_plan(plan: SweepFile, trials: int | None) -> None:
    """Raises if the plan cannot be run, or searched with this number of trials."""
    if trials is None:
        count_variants(plan)
    else:
        check_trials(trials)
        search_plan_of(plan)


@contextmanager
def sweep_progress(quiet: bool) -> Iterator[Progress]:
    """Shows a bar on standard error if that is a terminal."""
    with console.progress_bar(quiet, "compiling") as advance:
        yield Progress(changed=lambda now: advance(now.done, now.total))


def interruption_message(told: Progress, folder: Path) -> str:
    """Returns how far an interrupted sweep came, and how to continue it."""
    return (
        f"interrupted: {told.done:,} of {told.total:,} variants are done and kept in {folder}\n"
        "  help  the same command goes on from there"
    )


def show_preview(plan: SweepFile, store: Store, as_json: bool) -> None:
    """Prints all variants of a plan, and which are done."""
    jobs = all_jobs(plan)
    results = [store.find(job) for job in jobs]
    rows: list[Cells] = [
        {
            "variant": number,
            "model": job.model,
            **{column_name(key): _format_cell(value) for key, value in job.values.items()},
            "state": "to do" if result is None else "failed" if result.failure else "done",
        }
        for number, (job, result) in enumerate(zip(jobs, results, strict=True), 1)
    ]
    console.show_rows(rows, list(dict.fromkeys(key for row in rows for key in row)), as_json)


def _format_cell(value: object) -> object:
    return "x".join(map(str, value)) if isinstance(value, tuple) else value


def print_sweep(view: SweepOutput, as_json: bool) -> None:
    """Prints a sweep: everything as JSON, or a table that fits on a screen."""
    if as_json:
        print(json.dumps(view.facts, indent=2))
        return
    rows = [{**row, "variant": f"{row['variant']:,}{'*' * row['best']}"} for row in view.table]
    shown = [row for row in rows if not row["failure"]] if len(rows) <= MOST_ROWS else _best_rows(rows)
    if shown:
        print(console.format_table(shown, view.columns))
    elsewhere = len(rows) - len(shown) - view.facts["failed"]
    if elsewhere > 0:
        print(f"… and {elsewhere:,} more in table.csv")
    for failure in view.facts["failures"]:
        many = f"{failure['variants']:,} variants" if failure["variants"] > 1 else "1 variant"
        console.print_line(f"\n{many} failed (variant {failure['first_variant']:,}): {failure['message']}")
    _print_missing_reasons(view.table)
    print(f"\n{_summary_text(view)}")


def _best_rows(rows: list[Cells]) -> list[Cells]:
    return [row for row in rows if row["best"]][:MOST_ROWS]


def _print_missing_reasons(table: list[Cells]) -> None:
    """Prints each reason for missing results once."""
    counted: dict[str, int] = {}
    for row in table:
        if row["left_out"]:
            counted[row["left_out"]] = counted.get(row["left_out"], 0) + 1
    for reason, count in counted.items():
        console.print_line(f"\nleft out of {count:,}: {reason}")


def _summary_text(view: SweepOutput) -> str:
    facts = view.facts
    words = [f"{facts['variants']:,} variants", f"{facts['failed']:,} failed"]
    if facts["usable"]:
        words.append(f"{len(facts['best']):,} best ({facts['best_means']})")
    elif facts["failed"] < facts["variants"]:
        words.append("none within the limits")
    return f"{', '.join(words)}\n{facts['output']}: {', '.join(facts['written'])}, jobs/"
