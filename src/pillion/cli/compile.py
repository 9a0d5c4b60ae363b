# SPDX-License-Identifier: Apache-2.0
"""`pillion compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.cli import completion, report, screen
from pillion.cli.application import app
from pillion.cli.data_options import Fitting
from pillion.cli.groups import How, InParts, NamedModel, Timing
from pillion.cli.help import MAKE, RESULT
from pillion.cli.options import (
    ForceOption,
    JsonOption,
    OutputOption,
    QuantizeOption,
    SelfTestOption,
    TargetOption,
)
from pillion.cli.request import Request, build, check, write
from pillion.outside.files import form_of


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion compile ds_cnn -t cortex-m55 -q -o kws_fw/               a C project
pillion compile net.py:Net -t cortex-m33 -q --calibrate samples/ -o net_fw/
pillion compile net.py:Net -t cortex-m33 -q --calibrate photos/ --fit crop --mean 0.5 --std 0.5 -o net_fw/
pillion compile mobilenet_v2 --input-size 96 -t cortex-m33 -q -o mv2.pte
pillion compile resnet8 -t cortex-m33 -q --io-layout nhwc --rows-in -o cam/       lines of a camera, no frame buffer
pillion compile net.py:Net -t cortex-m33 -q --rows-of image -o cam/          the same of one of several inputs
pillion compile net.py:Net -t cortex-m55 -q --stream x:2 --hop 2 -o kws_fw/      two new frames in each run
pillion compile gru.py:Net -t cortex-m55 -q --stateful -o gru_fw/         it goes on where the run before ended
pillion compile cell.py:Net -t cortex-m55 -q --state-pair h:1 -o cell_fw/   the input h is output 1 of the run before
pillion compile kws.tflite -t CHIP -o kws.pte                 int8 already: no -q; CHIP is of `pillion targets`
pillion compile kws.tflite -t cortex-m55 --arithmetic cmsis-nn -o kws.pte     rounded as CMSIS-NN does, and what that changes
""",
)
def compile(
    *,
    model: NamedModel,
    output: OutputOption,
    target: TargetOption,
    quantize: QuantizeOption = False,
    how: How,
    fitting: Fitting,
    parts: InParts,
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
    selftest: SelfTestOption = None,
    timing: Timing,
    page: Annotated[
        Optional[Path],
        typer.Option(
            "--report",
            metavar="FILE",
            help="An .html file for a report of the program (see `pillion report`).",
            rich_help_panel=RESULT,
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile a model for a chip, to C, .pte or .tflite.

    A model that computes in float is quantized on the way (-q), best with data like those it will see (--calibrate). What cannot be
    compiled is refused with the rule, the line of your model, and a way out."""
    request = Request(model.name, target, quantize, how, parts, intermediates, runtime)
    form_of(output)
    check(request)
    request = fitting.fitted(request)
    from pillion.cli import pages, selftests, times

    pages.check_page(page)
    conditions = timing.conditions
    times.want_c(conditions, output)
    selftests.want_form(selftest, output)
    with screen.progress(quiet=as_json):
        program = build(request)
    write(program, output, runtime, force=force, selftest=selftest)
    report.warn_of_memory(program)
    time = times.of_program(program, conditions, quiet=as_json)
    facts = {
        **report.compiled(program, output, runtime),
        **report.changed(program, quiet=as_json),
        **selftests.facts(program, output, selftest),
        **times.facts(time, as_json, in_short=True),
    }
    if page is not None:
        facts |= pages.paged(program, page, request, how.quantizing.calibrate, quiet=as_json)
    screen.show(facts, as_json)
