# SPDX-License-Identifier: Apache-2.0
"""`pillion eval`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from pillion.cli import screen
from pillion.cli.application import app
from pillion.cli.data_options import DataOption, LimitOption, Read
from pillion.cli.groups import How, NamedProgram
from pillion.cli.help import CHECK, DATA, GATES, RUNNING
from pillion.cli.options import ImpliedOption, JsonOption, SchedulerOption
from pillion.cli.request import Request

if TYPE_CHECKING:
    from pillion.evaluation.gates import Limits

OptionalTarget = Annotated[
    Optional[str],
    typer.Option("-t", "--target", help="What to compile a model for; of a .pte, another core than its own."),
]
FloatOption = Annotated[
    Optional[str],
    typer.Option(
        "--float",
        help="The float model to set beside: a zoo name, file.py:Net, a .pt2. Of a model that is compiled now, itself.",
    ),
]
NativeOption = Annotated[
    bool,
    typer.Option(
        "--native", help="Use all that this processor has. The same bytes, sooner.", rich_help_panel=RUNNING
    ),
]
WorkersOption = Annotated[
    Optional[int],
    typer.Option(help="Processes that run the program; all cores if not given.", rich_help_panel=RUNNING),
]


@dataclass(frozen=True)
class Gates:
    """What a program must reach: exit code 1 where it does not."""

    min_accuracy: Annotated[
        Optional[float],
        typer.Option(help="Exit with 1 below this share of right answers.", rich_help_panel=GATES),
    ] = None
    max_ram: Annotated[
        Optional[str], typer.Option(help="Exit with 1 above this: 256K.", rich_help_panel=GATES)
    ] = None
    max_flash: Annotated[
        Optional[str],
        typer.Option(help="Exit with 1 above this, in a linked firmware: 1M.", rich_help_panel=GATES),
    ] = None
    max_instructions: Annotated[
        Optional[str],
        typer.Option(help="Exit with 1 above this, on the emulated core: 20M.", rich_help_panel=GATES),
    ] = None

    @property
    def limits(self) -> Limits:
        """What was typed as numbers."""
        from pillion.evaluation.gates import Limits, parse_bytes, parse_count

        return Limits(
            self.min_accuracy,
            parse_bytes("--max-ram", self.max_ram),
            parse_bytes("--max-flash", self.max_flash),
            parse_count("--max-instructions", self.max_instructions),
        )


@contextmanager
def _runs(scheduler: str | None, workers: int | None) -> Iterator[dict[str, Any]]:
    """Where the program runs: in processes here, or on the workers of a cluster."""
    if scheduler is None:
        yield {"workers": workers}
        return
    from pillion.sweep.chunk_runs import runs_on
    from pillion.sweep.cluster import cluster, want_no_workers

    want_no_workers(scheduler, workers)
    with cluster(scheduler) as found:
        yield {"workers": found.count, "runs": runs_on(found)}


@app.command(
    name="eval",
    rich_help_panel=CHECK,
    epilog="""
pillion eval kws.pte -d test.npz                            accuracy of a compiled program
pillion eval net.py:Net -t cortex-m55 -d photos/ --calibrate photos/   with its float model beside
pillion eval fw/ -d test.npz --min-accuracy 0.9 --max-ram 256K         exit code 1 where it is not met
""",
)
def evaluate(
    *,
    program: NamedProgram,
    data: DataOption,
    target: OptionalTarget = None,
    metric: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="METRIC",
            help="A metric: top1, top5, auc, mse, mae or file.py:function; without it, what suits the labels. May be repeated.",
            rich_help_panel=DATA,
        ),
    ] = None,
    limit: LimitOption = None,
    float_model: FloatOption = None,
    only_int8: Annotated[
        bool, typer.Option("--only-int8", help="Do not run the float model beside.", rich_help_panel=RUNNING)
    ] = False,
    agree: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="PLACE",
            help="Run the first samples there too, and compare bytes: reference, executorch, litert, a board. May be repeated.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    agree_samples: Annotated[
        int, typer.Option(min=1, help="How many samples --agree runs.", rich_help_panel=RUNNING)
    ] = 3,
    gates: Gates,
    on: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Where it runs: host, or slower, reference, executorch, litert, a board.",
            rich_help_panel=RUNNING,
        ),
    ] = "host",
    native: NativeOption = False,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long a run of a sample may take until it is stopped.",
            rich_help_panel=RUNNING,
        ),
    ] = 60.0,
    read: Read,
    quantize: ImpliedOption = True,
    how: How,
    as_json: JsonOption = False,
) -> None:
    """Say what a program gets on a data set.

    Accuracy, or another metric, beside that of the float model where there is one, and by the very C that the chip gets.

    Evaluating a C project compiles and executes its code, and file.py:function is executed: only what you trust."""
    from pillion.cli.evaluation import facts_of, on_screen
    from pillion.cli.named_program import Named
    from pillion.data.given import open_data
    from pillion.evaluation.costs import costs_of
    from pillion.evaluation.evaluate import evaluate as run_evaluation

    limits = gates.limits
    limits.check(metric)
    reading = read.reading
    source = open_data(data, reading)
    named = Named(Request(program.name, target or "", True, how), float_model, reading)
    with screen.progress(quiet=as_json) as progress:
        built = named.program(progress)
    floats = named.floats(beside=not only_int8)
    costs = costs_of(
        built, flash=limits.max_flash is not None, instructions=limits.max_instructions is not None
    )
    with screen.progress(quiet=as_json, what="evaluating") as progress, _runs(scheduler, workers) as where:
        evaluation = run_evaluation(
            built,
            source,
            metric,
            limit=limit,
            **where,
            native=native,
            on=on,
            float_model=floats,
            agree=agree or (),
            agree_samples=agree_samples,
            timeout=timeout,
            progress=progress,
        )
    judged = list(limits.judge(evaluation, costs))
    for note in evaluation.notes:
        screen.warn(note)
    facts = facts_of(evaluation, costs, judged)
    screen.show(facts if as_json else on_screen(facts), as_json)
    if not all(gate.ok for gate in judged):
        raise typer.Exit(1)
