# SPDX-License-Identifier: Apache-2.0
"""The command `pillion eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from pillion.cli import console
from pillion.cli.application import app
from pillion.cli.data_options import DataOption, LimitOption
from pillion.cli.dataclass_options import Without
from pillion.cli.help import CHECK, DATA, RUNNING, option
from pillion.cli.option_groups import EvaluationRuns, NamedProgram
from pillion.cli.options import ImpliedOption, JsonOption, OptionalTarget
from pillion.cli.request import Request
from pillion.compile_options import CompileOptions
from pillion.data.reading_options import EventOptions, Reading
from pillion.errors import PillionError
from pillion.evaluation.gates import Limits

FloatOption = Annotated[
    Optional[str],
    option(None, "Float model to compare with: zoo name, file.py:Net, .pt2 (default: itself).", "--float"),
]


@app.command(
    name="eval",
    rich_help_panel=CHECK,
    epilog="""
pillion eval kws.pte -d test.npz                            accuracy of a compiled program
pillion eval net.py:Net -t cortex-m55 -d photos/ --calibrate photos/   with its float model
pillion eval fw/ -d test.npz --min-accuracy 0.9 --max-ram 256K         exit code 1 on failure
pillion eval fw/ --max-ram 256K --max-flash 1M                         costs alone need no data
pillion eval wake/ -d recordings/ --events events.csv --within 1.5     a program with states
""",
)
def evaluate(
    *,
    program: NamedProgram,
    data: DataOption = None,
    target: OptionalTarget = None,
    metric: Annotated[
        Optional[list[str]],
        option(
            DATA, "Metric: top1, top5, auc, mse, mae or file.py:function. May be repeated.", metavar="METRIC"
        ),
    ] = None,
    limit: LimitOption = None,
    float_model: FloatOption = None,
    only_int8: Annotated[bool, option(RUNNING, "Do not run the float model.", "--only-int8")] = False,
    runs: EvaluationRuns,
    limits: Limits,
    reading: Reading,
    events: EventOptions,
    quantize: ImpliedOption = True,
    options: Annotated[CompileOptions, Without(("memory",))],
    as_json: JsonOption = False,
) -> None:
    """Measure the accuracy of a program on a data set.

    Runs the generated C, and the float model for comparison if there is one. Accuracy can be replaced by other
    metrics. Limits of costs need no data. With --events, a program with states runs through whole recordings, each from a reset.

    Evaluating a C project compiles and executes its code, and file.py:function is executed: use only what you
    trust."""
    from pillion.cli.evaluate_output import cost_facts, event_facts, facts_of, with_confusion_table
    from pillion.cli.named_program import NamedProgramOptions
    from pillion.data.python_data import open_data
    from pillion.data.recordings import read_events, recording_files
    from pillion.evaluation.evaluate import evaluate as run_evaluation
    from pillion.evaluation.event_evaluation import evaluate_events
    from pillion.evaluation.program_costs import costs_of
    from pillion.evaluation.program_io import program_io

    limits.check(metric, events.events is not None)
    if data is None:
        limits.require_costs_alone(metric, events.events, float_model, runs.agree)
    _refuse_mixture(events, metric, float_model, only_int8)
    source = open_data(data, reading) if data is not None and events.events is None else None
    if data is not None and events.events is not None:  # before a model is compiled
        read_events(events.events, [*recording_files(Path(data))], reading.classes)
    named = NamedProgramOptions(Request(program.name, target or "", True, options), float_model, reading)
    with console.progress_bar(quiet=as_json) as progress:
        built = named.program(progress)
    costs = costs_of(
        built, flash=limits.max_flash is not None, instructions=limits.max_instructions is not None
    )
    running: dict[str, Any] = {"limit": limit, **vars(runs)}
    with console.progress_bar(quiet=as_json, what="evaluating") as progress:
        if data is None:
            judged = list(limits.judge(None, costs))
            facts = shown = cost_facts(program_io(built), costs, judged)
        elif events.events is not None:
            heard = evaluate_events(
                built,
                data,
                events.events,
                within=events.within,
                rate=events.rate,
                reading=reading,
                progress=progress,
                **running,
            )
            judged = list(limits.judge(heard, costs))
            facts = shown = event_facts(heard, costs, judged)
        else:
            floats = named.floats(beside=not only_int8)
            evaluation = run_evaluation(
                built, source, metric, float_model=floats, progress=progress, **running
            )
            judged = list(limits.judge(evaluation, costs))
            for note in evaluation.notes:
                console.warn(note)
            facts = facts_of(evaluation, costs, judged)
            shown = with_confusion_table(facts)
    console.print_facts(facts if as_json else shown, as_json)
    if not all(gate.ok for gate in judged):
        raise typer.Exit(1)


def _refuse_mixture(
    events: EventOptions, metric: list[str] | None, float_model: str | None, only_int8: bool
) -> None:
    """Raises if options for samples meet recordings."""
    if events.events is not None and (metric or float_model or only_int8):
        raise PillionError(
            "events have metrics of their own",
            rule="the share of events found, false alarms an hour, and the mean delay",
            here=f"--metric {metric[0]}"
            if metric
            else f"--float {float_model}"
            if float_model
            else "--only-int8",
            help="leave it out, or evaluate the network alone, on samples, without --events",
        )
