# SPDX-License-Identifier: Apache-2.0
"""`pillion train`."""

from __future__ import annotations

from typing import Annotated

import typer

from pillion.cli.application import app
from pillion.cli.options import (
    ForceOption,
    IoDtypeOption,
    IoLayoutOption,
    JsonOption,
    KeepOption,
    OnlyNpuOption,
    OptimizeOption,
    OutputOption,
    SizeOption,
    TargetOption,
    WeightsOption,
)


@app.command()
def train(
    function: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:FUNCTION", help="Your training: FUNCTION(model) trains it and returns it."
        ),
    ],
    output: OutputOption,
    target: TargetOption,
    model: Annotated[
        str,
        typer.Option("-m", "--model", help="A zoo name or file.py:factory; if left out, FILE.py:model."),
    ] = "",
    weights: WeightsOption = None,
    input_size: SizeOption = None,
    io_dtype: IoDtypeOption = "float32",
    io_layout: IoLayoutOption = "nchw",
    keep_on_cpu: KeepOption = None,
    only_npu: OnlyNpuOption = False,
    optimize: OptimizeOption = "speed",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model that rounds as the target does, with your own loop, and compile it.

    What your loop prints is left alone; with --json it goes to standard error."""
    from pillion.cli import report
    from pillion.cli.request import Request, parse_size
    from pillion.cli.training import train as run_training

    request = Request(
        model,
        target,
        weights=weights,
        input_size=parse_size(input_size),
        io_dtype=io_dtype,
        io_layout=io_layout,
        keep_on_cpu=tuple(keep_on_cpu or ()),
        only_npu=only_npu,
        optimize=optimize,
    )
    program, batches = run_training(function, request, output, force=force, prints_to_stderr=as_json)
    report.show({**report.compiled(program, output), "batches": batches}, as_json)
