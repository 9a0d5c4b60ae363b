# SPDX-License-Identifier: Apache-2.0
"""The command `pillion sweep`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.cli.application import app
from pillion.cli.help import MAKE, argument, option
from pillion.cli.options import JsonOption, SchedulerOption

if TYPE_CHECKING:
    from pillion.sweep.outputs import SweepOutput
    from pillion.sweep.runner import Runner, Workers
    from pillion.sweep.sweep_file import SweepFile

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion sweep sweep.toml                                    all variants; repeat to continue
pillion sweep sweep.toml --dry-run                          only list the variants
pillion sweep sweep.toml --search 200                       variants chosen by an optimizer
""",
)
def sweep(
    file: Annotated[Path, argument("The sweep: models, targets, options.", metavar="SWEEP.toml")],
    output: Annotated[
        Optional[Path],
        option(None, "Folder for the results (default: SWEEP.sweep next to the file).", "-o --output"),
    ] = None,
    search: Annotated[
        Optional[int], option(None, "Try this many variants that an optimizer chooses (see [search]).")
    ] = None,
    scheduler: SchedulerOption = None,
    workers: Annotated[
        Optional[int], option(None, "Processes on this computer (default: one per core).")
    ] = None,
    retry: Annotated[bool, option(None, "Retry variants that were refused.", "--retry")] = False,
    dry_run: Annotated[
        bool, option(None, "List the variants and those done; run nothing.", "--dry-run")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compile and measure many variants of models.

    Writes a table, a picture and every program. Results are kept: the same command continues an interrupted
    sweep. Python files that the sweep names are executed."""
    from pillion.cli import sweep_output
    from pillion.sweep.cluster import connect_cluster, require_extra, require_no_workers
    from pillion.sweep.local_workers import local_workers
    from pillion.sweep.runner import Runner
    from pillion.sweep.store import open_store
    from pillion.sweep.sweep_file import read_plan

    require_no_workers(scheduler, workers)
    plan = read_plan(file)
    sweep_output.check_plan(plan, search)
    require_extra("matplotlib", *(["optuna"] if search else []))
    folder = output or file.with_suffix(".sweep")

    def open_workers() -> AbstractContextManager[Workers]:
        return connect_cluster(scheduler) if scheduler else local_workers(workers)

    with open_store(folder) as store:
        if dry_run:
            sweep_output.show_preview(plan, store, as_json)
            return
        with sweep_output.sweep_progress(quiet=as_json) as progress:
            try:
                with Runner(store, open_workers, progress, retry) as runner:
                    view = _run_sweep(plan, runner, search)
            except KeyboardInterrupt:
                view = None
    if view is None:
        print(sweep_output.interruption_message(progress, folder), file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    sweep_output.print_sweep(view, as_json)
    if not view.facts["usable"]:
        raise typer.Exit(1)


def _run_sweep(plan: SweepFile, runner: Runner, trials: int | None) -> SweepOutput:
    """Runs all variants, or the variants of a search, and writes the results."""
    from pillion.sweep.optuna_search import run_search
    from pillion.sweep.outputs import write_views
    from pillion.sweep.runner import run_all
    from pillion.sweep.variants import all_jobs

    if trials is None:
        return write_views(plan, run_all(all_jobs(plan), runner), runner.store, None)
    return write_views(plan, run_search(plan, trials, runner), runner.store, plan.search)
