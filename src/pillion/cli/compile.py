# SPDX-License-Identifier: Apache-2.0
"""`pillion compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.cli.application import app
from pillion.cli.options import (
    CalibrateOption,
    ClockOption,
    ForceOption,
    IoDtypeOption,
    IoLayoutOption,
    JsonOption,
    KeepOption,
    MemoriesOption,
    ModelOption,
    NpuClockOption,
    OnlyNpuOption,
    OptimizeOption,
    OutputOption,
    QuantizeOption,
    SelfTestOption,
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
    selftest: SelfTestOption = None,
    clock: ClockOption = None,
    npu_clock: NpuClockOption = None,
    memories: MemoriesOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile a model for a chip, and write it as a C project, a .pte or a .tflite file."""
    from pillion.cli import report, selftests, times
    from pillion.cli.request import Request, build, parse_size, write

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
    conditions = times.conditions(clock, npu_clock, memories)
    times.want_c(conditions, output)
    selftests.want_form(selftest, output)
    with report.progress(quiet=as_json) as progress:
        program = build(request, progress)
    write(program, output, runtime, force=force, selftest=selftest)
    report.warn_of_memory(program)
    time = times.of_program(program, conditions, quiet=as_json)
    report.show(
        {
            **report.compiled(program, output, runtime),
            **selftests.facts(program, output, selftest),
            **times.facts(time, as_json, in_short=True),
        },
        as_json,
    )
