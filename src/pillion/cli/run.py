# SPDX-License-Identifier: Apache-2.0
"""`pillion run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.boards.board import BOARDS
from pillion.cli.application import app
from pillion.cli.options import ClockOption, JsonOption, MemoriesOption, NpuClockOption
from pillion.errors import PillionError
from pillion.outside.files import suffix_of

if TYPE_CHECKING:
    from pillion.run.executor import RunOptions, RunResult
    from pillion.run.time import Conditions, TimeEstimate

    Ran = tuple[str, RunResult, TimeEstimate | None]
    """The name of what ran, what came out, and how long it would take."""


@app.command()
def run(
    program: Annotated[
        Path, typer.Argument(help="What `pillion compile` wrote: a .pte file, or the folder of a C project.")
    ],
    on: Annotated[
        str,
        typer.Option(
            help="host, or a board: mps2-an505, mps3-an547, …; for a .pte also reference, litert, executorch "
            "(its own runtime on this computer, with Pillion's kernels)."
        ),
    ] = "host",
    input: Annotated[
        Optional[list[Path]],
        typer.Option("-i", "--input", help="A .npy file for each input; random data if none is given."),
    ] = None,
    output: Annotated[
        Optional[list[Path]], typer.Option("-o", "--output", help="A .npy file for each output.")
    ] = None,
    profile: Annotated[bool, typer.Option(help="Count instructions and show memory (boards only).")] = False,
    native: Annotated[
        bool, typer.Option("--native", help="On the host: compile for exactly this processor.")
    ] = False,
    selftest: Annotated[
        bool,
        typer.Option("--selftest", help="Run the project's self-test: exit code 1 where something differs."),
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which a run is stopped.")] = 60.0,
    clock: ClockOption = None,
    npu_clock: NpuClockOption = None,
    memories: MemoriesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a compiled model on this computer or on an emulated board.

    Running a C project compiles and executes its code: run only projects that you trust."""
    from pillion.cli import report, selftests, times
    from pillion.cli.request import check_program, write_outputs
    from pillion.run.executor import EXECUTORCH, HOST, LITERT, REFERENCE, RunOptions

    conditions = times.conditions(clock, npu_clock, memories)
    if (profile or conditions) and on in (HOST, REFERENCE, EXECUTORCH, LITERT):
        raise PillionError(
            f"{'--profile' if profile else '--clock'} counts instructions on a board",
            rule="--on names a board",
            here=f"--on {on}",
            help="add --on mps2-an505 or --on mps3-an547",
        )
    check_program(program)
    if selftest:
        selftests.refuse_others(
            {"--input": input, "--output": output, "--profile": profile, "--clock": clock}
        )
        selftests.run(program, on, timeout, as_json)
        return
    run_one = _run_file if suffix_of(program) == ".pte" else _run_project
    model, result, time = run_one(program, on, input or [], RunOptions(timeout, profile, native), conditions)
    write_outputs(output or [], result.outputs)
    report.show(
        {
            **times.ran(report.ran(model, on, result), time),
            **times.facts(time, as_json, in_short=not profile),
        },
        as_json,
    )


def _run_project(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: Conditions | None
) -> Ran:
    from pillion.cli import times
    from pillion.cli.request import read_inputs
    from pillion.emitters.c.manifest import read_manifest
    from pillion.run.places import run_folder

    manifest = read_manifest(program)
    arrays = read_inputs(inputs, manifest.inputs)
    result = run_folder(program, [arrays], on, options)[0]
    return manifest.model, result, times.of_folder(program, conditions, arrays, on, options)


def _run_file(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: Conditions | None
) -> Ran:
    from pillion.cli import times
    from pillion.cli.request import read_inputs
    from pillion.compiler import load
    from pillion.run.places import find_executor

    find_executor(on)
    loaded = load(program, board=BOARDS.get(on))
    arrays = read_inputs(inputs, loaded.graph.inputs)
    result = loaded.measure(*arrays, on=on, **vars(options))
    time = times.of_program(loaded, conditions, on=on, sample=arrays, timeout=options.timeout, quiet=True)
    return loaded.graph.name, result, time
