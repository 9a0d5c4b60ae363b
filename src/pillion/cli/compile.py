# SPDX-License-Identifier: Apache-2.0
"""`pillion compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.cli.application import app
from pillion.cli.options import (
    CalibrateOption,
    ForceOption,
    IoDtypeOption,
    IoLayoutOption,
    JsonOption,
    KeepOption,
    ModelOption,
    OnlyNpuOption,
    OptimizeOption,
    OutputOption,
    QuantizeOption,
    SizeOption,
    TargetOption,
    TrustOption,
    WeightsOption,
)


@app.command()
def compile(
    model: ModelOption,
    output: OutputOption,
    target: TargetOption,
    quantize: QuantizeOption = False,
    calibrate: CalibrateOption = None,
    weights: WeightsOption = None,
    trust_pickle: TrustOption = False,
    input_size: SizeOption = None,
    io_dtype: IoDtypeOption = "float32",
    io_layout: IoLayoutOption = "nchw",
    keep_on_cpu: KeepOption = None,
    only_npu: OnlyNpuOption = False,
    optimize: OptimizeOption = "speed",
    runtime: Annotated[
        str, typer.Option(help="Of a .pte: 1.4, or main, where some operators have other arguments.")
    ] = "1.4",
    intermediates: Annotated[
        Optional[Path],
        typer.Option("-i", "--intermediates", help="A folder for the graph's text after each pass."),
    ] = None,
    page: Annotated[
        Optional[Path],
        typer.Option("--report", help="An .html file for a report of the program (see `pillion report`)."),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile a model for a chip, and write it as a C project, a .pte or a .tflite file."""
    from pillion.cli import report
    from pillion.cli.pages import check_page, paged
    from pillion.cli.request import Request, build, parse_size, write

    check_page(page)
    request = Request(
        model,
        target,
        quantize,
        calibrate,
        weights,
        parse_size(input_size),
        io_dtype,
        io_layout,
        intermediates,
        tuple(keep_on_cpu or ()),
        only_npu,
        optimize,
        runtime,
        trust_pickle,
    )
    with report.progress(quiet=as_json) as progress:
        program = build(request, progress)
    write(program, output, runtime, force=force)
    report.warn_of_memory(program)
    facts = report.compiled(program, output, runtime)
    if page is not None:
        facts |= paged(program, page, request, calibrate, quiet=as_json)
    report.show(facts, as_json)
