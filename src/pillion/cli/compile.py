# SPDX-License-Identifier: Apache-2.0
"""`pillion compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.cli.app import app
from pillion.cli.options import (
    CalibrateOption,
    JsonOption,
    KeepOption,
    ModelOption,
    SizeOption,
    TargetOption,
    WeightsOption,
)


@app.command()
def compile(
    model: ModelOption,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="What to write: a folder for a C project, or a .pte or .tflite file."
        ),
    ],
    target: TargetOption,
    quantize: Annotated[
        bool, typer.Option("-q", "--quantize", help="Quantize to int8 after training (PTQ).")
    ] = False,
    calibrate: CalibrateOption = None,
    weights: WeightsOption = None,
    input_size: SizeOption = None,
    io_dtype: Annotated[str, typer.Option(help="float32 or int8: what goes in and comes out.")] = "float32",
    io_layout: Annotated[str, typer.Option(help="nchw or nhwc: how images go in and come out.")] = "nchw",
    keep_on_cpu: KeepOption = None,
    only_npu: Annotated[
        bool, typer.Option("--only-npu", help="Fail if any op cannot run on the NPU.")
    ] = False,
    optimize: Annotated[
        str, typer.Option(help="speed, or size: fewer kernels, compiled to be small.")
    ] = "speed",
    runtime: Annotated[
        str, typer.Option(help="Of a .pte: 1.4, or main, where some operators have other arguments.")
    ] = "1.4",
    intermediates: Annotated[
        Optional[Path],
        typer.Option("-i", "--intermediates", help="A folder for the graph's text after each pass."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compile a model."""
    from pillion import build, report

    request = build.Request(
        model,
        target,
        quantize,
        calibrate,
        weights,
        build.parse_size(input_size),
        io_dtype,
        io_layout,
        intermediates,
        tuple(keep_on_cpu or ()),
        only_npu,
        optimize,
        runtime,
    )
    with report.progress(quiet=as_json) as progress:
        program = build.build(request, progress)
    build.write(program, output, runtime)
    report.warn_of_memory(program)
    report.show(report.compiled(program, output, runtime), as_json)
