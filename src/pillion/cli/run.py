# SPDX-License-Identifier: Apache-2.0
"""`pillion run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.boards.board import BOARDS
from pillion.choices import EXECUTORS
from pillion.cli import completion, report, screen
from pillion.cli.application import app
from pillion.cli.groups import Timing
from pillion.cli.help import CHECK, RUNNING
from pillion.cli.options import JsonOption
from pillion.cli.request import check_program, read_inputs, write_outputs
from pillion.errors import PillionError, one_of
from pillion.outside.files import suffix_of

if TYPE_CHECKING:
    from pillion.ir.streaming import Streaming
    from pillion.run.executor import RunOptions, RunResult
    from pillion.run.time import Conditions, TimeEstimate

    Ran = tuple[str, RunResult, TimeEstimate | None, Streaming | None]
    """The name of what ran, what came out, how long it would take, and how it is fed if it is a stream."""


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion run kws_fw/                                         on this computer, random input
pillion run kws_fw/ -i x.npy -o y.npy                       the output as an array
pillion run kws_fw/ --on mps3-an547 --profile               instructions and memory of each op
pillion run kws.pte --on executorch                         in ExecuTorch's own runtime
""",
)
def run(
    *,
    program: Annotated[
        Path,
        typer.Argument(
            metavar="PROGRAM",
            help="What `pillion compile` wrote: a .pte file, or the folder of a C project.",
            autocompletion=completion.programs,
        ),
    ],
    on: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help=f"host (this computer), npu (the same, and the NPU's own code is executed, where that is known), or an emulated board: "
            f"{', '.join(BOARDS)}; for a .pte also reference, litert, executorch (its own runtime on this computer, with Pillion's kernels).",
            autocompletion=completion.places,
            rich_help_panel=RUNNING,
        ),
    ] = "host",
    input: Annotated[
        Optional[list[Path]],
        typer.Option(
            *("-i", "--input"),
            metavar="FILE",
            help="A .npy file; once for each input. Without any, the inputs are random.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    output: Annotated[
        Optional[list[Path]],
        typer.Option(
            *("-o", "--output"),
            metavar="FILE",
            help="A .npy file to write; once for each output.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            help="On a board: count the instructions of each op, and measure memory.", rich_help_panel=RUNNING
        ),
    ] = False,
    native: Annotated[
        bool,
        typer.Option(
            "--native",
            help="On the host: use all that this processor has. The same bytes, sooner.",
            rich_help_panel=RUNNING,
        ),
    ] = False,
    selftest: Annotated[
        bool,
        typer.Option(
            "--selftest",
            help="Run the project's self-test: exit code 1 where something differs.",
            rich_help_panel=RUNNING,
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long a run may take until it is stopped.", rich_help_panel=RUNNING
        ),
    ] = 60.0,
    timing: Timing,
    as_json: JsonOption = False,
) -> None:
    """Run a compiled model here or on an emulated board.

    The board of a target is in `pillion targets`. Running a C project compiles and executes its code: run only projects that you trust."""

    one_of("--on", on, (*EXECUTORS, *BOARDS))
    if (profile or timing.clock) and on not in BOARDS:
        raise PillionError(
            f"{'--profile' if profile else '--clock'} counts instructions on a board",
            rule="--on names a board",
            here=f"--on {on}",
            help="add --on mps2-an505 or --on mps3-an547",
        )
    check_program(program)
    from pillion.cli import selftests, times
    from pillion.run.executor import RunOptions

    conditions = timing.conditions
    if selftest:
        selftests.refuse_others(
            {"--input": input, "--output": output, "--profile": profile, "--clock": timing.clock}
        )
        selftests.run(program, on, timeout, as_json)
        return
    run_one = _run_file if suffix_of(program) == ".pte" else _run_project
    options = RunOptions(timeout, profile, native)
    with screen.progress(quiet=as_json):
        model, result, time, streaming = run_one(program, on, input or [], options, conditions)
    write_outputs(output or [], result.outputs)
    screen.show(
        {
            **times.ran(report.ran(model, on, result, streaming), time),
            **times.facts(time, as_json, in_short=not profile),
        },
        as_json,
    )


def _run_project(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: Conditions | None
) -> Ran:
    from pillion.cli import times
    from pillion.emitters.c.manifest import read_manifest
    from pillion.run.places import run_folder

    manifest = read_manifest(program)
    arrays = read_inputs(inputs, manifest.inputs)
    result = run_folder(program, [arrays], on, options)[0]
    time = times.of_folder(program, conditions, arrays, on, options)
    return manifest.model, result, time, manifest.stream


def _run_file(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: Conditions | None
) -> Ran:
    from pillion.cli import times
    from pillion.compiler import load
    from pillion.run.places import find_executor

    find_executor(on)
    loaded = load(program, board=BOARDS.get(on))
    arrays = read_inputs(inputs, loaded.graph.inputs)
    result = loaded.measure(
        *arrays, on=on, profile=options.profile, timeout=options.timeout, native=options.native
    )
    time = times.of_program(loaded, conditions, on=on, sample=arrays, timeout=options.timeout, quiet=True)
    return loaded.graph.name, result, time, None
