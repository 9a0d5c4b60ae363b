# SPDX-License-Identifier: Apache-2.0
"""`pillion run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.cli.app import app
from pillion.cli.options import (
    JsonOption,
)
from pillion.errors import PillionError


@app.command()
def run(
    program: Annotated[Path, typer.Argument(help="A C project that `pillion compile` wrote.")],
    on: Annotated[str, typer.Option(help="host, or a board: mps2-an505, mps3-an547, …")] = "host",
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
    timeout: Annotated[float, typer.Option(help="Seconds after which a board is stopped.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Run a compiled model on this computer or on an emulated board."""
    from pillion import build, report
    from pillion.emitters.c.project import read_manifest
    from pillion.executors import HOST, run_project

    if profile and on == HOST:
        raise PillionError(
            "--profile counts instructions on a board",
            rule="--on names a board",
            here=f"--on {on}",
            help="add --on mps2-an505 or --on mps3-an547",
        )
    manifest = read_manifest(program)
    arrays = build.read_inputs(input or [], manifest)
    result = run_project(program, arrays, on, profile=profile, timeout=timeout, native=native)
    build.write_outputs(output or [], result.outputs)
    report.show(report.ran(manifest, on, result), as_json)
