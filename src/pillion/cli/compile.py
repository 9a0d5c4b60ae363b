# SPDX-License-Identifier: Apache-2.0
"""`pillion compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.cli import completion, report
from pillion.cli.application import app
from pillion.cli.help import MAKE, RESULT
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
from pillion.cli.request import Request, build, parse_size, write
from pillion.outside.files import form_of


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion compile -m ds_cnn -t cortex-m55 -q -o kws_fw/               a C project
pillion compile -m net.py:Net -t cortex-m33 -q --calibrate samples/ -o net_fw/
pillion compile -m mobilenet_v2 --input-size 96 -t cortex-m33 -q -o mv2.pte
pillion compile -m kws.tflite -t CHIP -o kws.pte                 int8 already: no -q; CHIP is of `pillion targets`
""",
)
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
        str,
        typer.Option(
            metavar="1.4|main",
            help="For which ExecuTorch a .pte is: in main some operators have other arguments.",
            autocompletion=completion.one_of_these("1.4", "main"),
            rich_help_panel=RESULT,
        ),
    ] = "1.4",
    intermediates: Annotated[
        Optional[Path],
        typer.Option(
            *("-i", "--intermediates"),
            metavar="DIR",
            help="A folder for what lies between: the graph after each pass, who runs what, the memory plan.",
            rich_help_panel=RESULT,
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile a model for a chip, to C, .pte or .tflite.

    A model that computes in float is quantized on the way (-q), best with data like those it will see (--calibrate). What cannot be
    compiled is refused with the rule, the line of your model, and a way out."""
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
    form_of(output)
    with report.progress(quiet=as_json):
        program = build(request)
    write(program, output, runtime, force=force)
    report.warn_of_memory(program)
    report.show(report.compiled(program, output, runtime), as_json)
