# SPDX-License-Identifier: Apache-2.0
"""`pillion explain`."""

from __future__ import annotations

from pillion.cli import report
from pillion.cli.application import app
from pillion.cli.help import LOOK
from pillion.cli.options import (
    CalibrateOption,
    ClockOption,
    ExtraOption,
    HopOption,
    JsonOption,
    KeepOption,
    MaxRamOption,
    MemoriesOption,
    ModelOption,
    NpuClockOption,
    RowsInOption,
    SizeOption,
    StreamOption,
    TargetOption,
    TrustOption,
    WeightsOption,
)
from pillion.cli.request import Request, build, check, parse_size
from pillion.streams.wish import stream_wish
from pillion.stripes.wish import memory_wish


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion explain -m ds_cnn -t CHIP                      on a CHIP with an NPU: what would flip an op
pillion explain -m net.py:Net -t cortex-m55            which kernel, and why not a faster one
pillion explain -m ds_cnn -t cortex-m55 --json         all columns
""",
)
def explain(
    model: ModelOption,
    target: TargetOption,
    calibrate: CalibrateOption = None,
    weights: WeightsOption = None,
    trust_pickle: TrustOption = False,
    input_size: SizeOption = None,
    keep_on_cpu: KeepOption = None,
    max_ram: MaxRamOption = None,
    extra: ExtraOption = None,
    rows_in: RowsInOption = False,
    stream: StreamOption = None,
    hop: HopOption = None,
    clock: ClockOption = None,
    npu_clock: NpuClockOption = None,
    memories: MemoriesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say for every op who runs it, and why.

    On a chip with an NPU: on which unit, which rule decided, and what would change that. On a core alone: by which kernel, and why that
    one. Nothing is written."""
    request = Request(
        model,
        target,
        True,
        calibrate,
        weights,
        parse_size(input_size),
        keep_on_cpu=tuple(keep_on_cpu or ()),
        trust_pickle=trust_pickle,
        memory=memory_wish(max_ram, extra, rows_in),
        stream=stream_wish(stream, hop),
    )
    check(request)
    from pillion.cli import times

    conditions = times.conditions(clock, npu_clock, memories)
    with report.progress(quiet=as_json):
        program = build(request)
    time = times.of_program(program, conditions, quiet=as_json)
    facts = times.explained(report.explained(program), program, time, as_json)
    report.show(facts, as_json, times.columns(report.explain_columns(program), time))
