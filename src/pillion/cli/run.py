# SPDX-License-Identifier: Apache-2.0
"""`pillion run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from pillion.cli.application import app
from pillion.cli.options import (
    JsonOption,
)
from pillion.errors import PillionError
from pillion.files import suffix_of

if TYPE_CHECKING:
    from pillion.emitters.c.manifest import OpFacts
    from pillion.executors import RunResult

    Ran = tuple[str, tuple[OpFacts, ...], RunResult]
    """The name of what ran, its ops, and what came out."""


@app.command()
def run(
    program: Annotated[
        Path, typer.Argument(help="What `pillion compile` wrote: a .pte file, or the folder of a C project.")
    ],
    on: Annotated[
        str,
        typer.Option(
            help="host, or a board: mps2-an505, mps3-an547, …; for a .pte also reference, executorch "
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
    timeout: Annotated[float, typer.Option(help="Seconds after which a run is stopped.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Run a compiled model on this computer or on an emulated board.

    Running a C project compiles and executes its code: a stranger's project is a stranger's program."""
    from pillion import build, report
    from pillion.executors import EXECUTORCH, HOST, REFERENCE

    if profile and on in (HOST, REFERENCE, EXECUTORCH):
        raise PillionError(
            "--profile counts instructions on a board",
            rule="--on names a board",
            here=f"--on {on}",
            help="add --on mps2-an505 or --on mps3-an547",
        )
    build.check_program(program)
    options = {"profile": profile, "timeout": timeout, "native": native}
    run_one = _run_file if suffix_of(program) == ".pte" else _run_project
    model, ops, result = run_one(program, on, input or [], options)
    build.write_outputs(output or [], result.outputs)
    report.show(report.ran(model, ops, on, result), as_json)


def _run_project(program: Path, on: str, inputs: list[Path], options: dict[str, Any]) -> Ran:
    from pillion import build
    from pillion.emitters.c.manifest import read_manifest
    from pillion.executors import run_project

    manifest = read_manifest(program)
    arrays = build.read_inputs(inputs, manifest.inputs)
    return manifest.model, manifest.ops, run_project(program, arrays, on, **options)


def _run_file(program: Path, on: str, inputs: list[Path], options: dict[str, Any]) -> Ran:
    from pillion import build
    from pillion.loaded import load

    loaded = load(program, on)
    graph = loaded.program.graph
    return graph.name, *loaded.run(build.read_inputs(inputs, graph.inputs), on, **options)
