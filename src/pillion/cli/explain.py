# SPDX-License-Identifier: Apache-2.0
"""`pillion explain`."""

from __future__ import annotations

from pillion.cli.application import app
from pillion.cli.options import (
    CalibrateOption,
    ClockOption,
    JsonOption,
    KeepOption,
    MemoriesOption,
    ModelOption,
    NpuClockOption,
    SizeOption,
    TargetOption,
    TrustOption,
    WeightsOption,
)


@app.command()
def explain(
    model: ModelOption,
    target: TargetOption,
    calibrate: CalibrateOption = None,
    weights: WeightsOption = None,
    trust_pickle: TrustOption = False,
    input_size: SizeOption = None,
    keep_on_cpu: KeepOption = None,
    clock: ClockOption = None,
    npu_clock: NpuClockOption = None,
    memories: MemoriesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say for every op which unit runs it, which rule decided, and what would change that."""
    from pillion.cli import report, times
    from pillion.cli.request import Request, build, parse_size

    request = Request(
        model,
        target,
        True,
        calibrate,
        weights,
        parse_size(input_size),
        keep_on_cpu=tuple(keep_on_cpu or ()),
        trust_pickle=trust_pickle,
    )
    conditions = times.conditions(clock, npu_clock, memories)
    with report.progress(quiet=as_json) as progress:
        program = build(request, progress)
    time = times.of_program(program, conditions, quiet=as_json)
    facts = times.explained(report.explained(program), program, time, as_json)
    report.show(facts, as_json, times.columns(report.explain_columns(program), time))
