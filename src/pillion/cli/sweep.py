# SPDX-License-Identifier: Apache-2.0
"""`pillion sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.cli.application import app
from pillion.cli.help import MAKE
from pillion.cli.options import JsonOption, SchedulerOption

if TYPE_CHECKING:
    from pillion.sweep.plan import Plan
    from pillion.sweep.runner import Runner
    from pillion.sweep.views import View

INTERRUPTED = 130
"""The exit code that shells expect of Ctrl-C."""


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion sweep sweep.toml                                    all variants; the same command goes on later
pillion sweep sweep.toml --dry-run                          what there is to do
pillion sweep sweep.toml --search 200                       variants that an optimizer chooses
""",
)
def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="SWEEP.toml", help="What to try: models, targets, options.")
    ],
    output: Annotated[
        Optional[Path],
        typer.Option(
            "-o", "--output", help="The folder for results; if left out, SWEEP.sweep beside the file."
        ),
    ] = None,
    search: Annotated[
        Optional[int],
        typer.Option(
            help="Try so many variants that an optimizer chooses, by what [search] in the file says."
        ),
    ] = None,
    scheduler: SchedulerOption = None,
    workers: Annotated[
        Optional[int], typer.Option(help="Workers on this computer; one for each processor if left out.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Do variants again that were refused.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the variants and which are done, and do nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compile and measure many variants of models.

    What comes out is a table, a picture and every program.
    What is done is kept: the same command goes on where an earlier one stopped. Python files that the sweep names are run."""
    from pillion.cli import sweeping
    from pillion.sweep.cluster import cluster, want_extra, want_no_workers
    from pillion.sweep.plan import read_plan
    from pillion.sweep.runner import Runner
    from pillion.sweep.store import opened

    want_no_workers(scheduler, workers)
    plan = read_plan(file)
    sweeping.check(plan, search)
    want_extra()
    folder = output or file.with_suffix(".sweep")
    with opened(folder) as store:
        if dry_run:
            sweeping.show_preview(plan, store, as_json)
            return
        with sweeping.progress(quiet=as_json) as progress:
            try:
                with Runner(store, lambda: cluster(scheduler, workers), progress, retry) as runner:
                    view = _view(plan, runner, search)
            except KeyboardInterrupt:
                view = None
    if view is None:
        print(sweeping.interrupted(progress, folder), file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    sweeping.show(view, as_json)
    if not view.facts["usable"]:
        raise typer.Exit(1)


def _view(plan: Plan, runner: Runner, trials: int | None) -> View:
    """All variants, or those that a search asks for, done and written."""
    from pillion.sweep.runner import run_all
    from pillion.sweep.search import run_search
    from pillion.sweep.variants import all_jobs
    from pillion.sweep.views import write_views

    if trials is None:
        return write_views(plan, run_all(all_jobs(plan), runner), runner.store, None)
    return write_views(plan, run_search(plan, trials, runner), runner.store, plan.search)
