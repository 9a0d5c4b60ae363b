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
    ArithmeticOption,
    CalibrateOption,
    ClockOption,
    CorrectOption,
    EqualizeOption,
    ExtraOption,
    ForceOption,
    HopOption,
    IoDtypeOption,
    IoLayoutOption,
    JsonOption,
    KeepOption,
    MaxRamOption,
    MemoriesOption,
    ModelOption,
    NpuClockOption,
    OnlyNpuOption,
    OptimizeOption,
    OutputOption,
    PreferNpuOption,
    QuantizeOption,
    RangesOption,
    RowsInOption,
    SelfTestOption,
    SizeOption,
    StatefulOption,
    StateOption,
    StatePairOption,
    StreamOption,
    TargetOption,
    TrustOption,
    WeightsOption,
)
from pillion.cli.request import Request, build, check, parse_size, tuning_of, write
from pillion.outside.files import form_of
from pillion.streams.wish import stream_wish
from pillion.stripes.wish import memory_wish


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion compile -m ds_cnn -t cortex-m55 -q -o kws_fw/               a C project
pillion compile -m net.py:Net -t cortex-m33 -q --calibrate samples/ -o net_fw/
pillion compile -m mobilenet_v2 --input-size 96 -t cortex-m33 -q -o mv2.pte
pillion compile -m resnet8 -t cortex-m33 -q --io-layout nhwc --rows-in -o cam/       lines of a camera, no frame buffer
pillion compile -m net.py:Net -t cortex-m55 -q --stream x:2 --hop 2 -o kws_fw/      two new frames in each run
pillion compile -m gru.py:Net -t cortex-m55 -q --stateful -o gru_fw/         it goes on where the run before ended
pillion compile -m cell.py:Net -t cortex-m55 -q --state-pair h:1 -o cell_fw/   the input h is output 1 of the run before
pillion compile -m kws.tflite -t CHIP -o kws.pte                 int8 already: no -q; CHIP is of `pillion targets`
pillion compile -m kws.tflite -t cortex-m55 --arithmetic cmsis-nn -o kws.pte     rounded as CMSIS-NN does, and what that changes
""",
)
def compile(
    model: ModelOption,
    output: OutputOption,
    target: TargetOption,
    quantize: QuantizeOption = False,
    calibrate: CalibrateOption = None,
    ranges: RangesOption = "auto",
    equalize: EqualizeOption = False,
    correct_biases: CorrectOption = False,
    weights: WeightsOption = None,
    trust_pickle: TrustOption = False,
    input_size: SizeOption = None,
    io_dtype: IoDtypeOption = "float32",
    io_layout: IoLayoutOption = "nchw",
    state: StateOption = "kept",
    stateful: StatefulOption = False,
    state_pair: StatePairOption = None,
    keep_on_cpu: KeepOption = None,
    only_npu: OnlyNpuOption = False,
    prefer_npu: PreferNpuOption = False,
    arithmetic: ArithmeticOption = None,
    optimize: OptimizeOption = "speed",
    max_ram: MaxRamOption = None,
    extra: ExtraOption = None,
    rows_in: RowsInOption = False,
    stream: StreamOption = None,
    hop: HopOption = None,
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
    clock: ClockOption = None,
    npu_clock: NpuClockOption = None,
    memories: MemoriesOption = None,
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
        memory_wish(max_ram, extra, rows_in),
        state,
        stream_wish(stream, hop),
        prefer_npu,
        stateful,
        tuple(state_pair or ()),
        tuning_of(ranges, equalize=equalize, correct_biases=correct_biases),
        arithmetic,
    )
    form_of(output)
    check(request)
    from pillion.cli import pages, selftests, times

    pages.check_page(page)
    conditions = times.conditions(clock, npu_clock, memories)
    times.want_c(conditions, output)
    selftests.want_form(selftest, output)
    with report.progress(quiet=as_json):
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
        facts |= pages.paged(program, page, request, calibrate, quiet=as_json)
    report.show(facts, as_json)
