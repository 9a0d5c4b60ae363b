# SPDX-License-Identifier: Apache-2.0
"""`pillion explain`."""

from __future__ import annotations

from pillion.cli.application import app
from pillion.cli.options import (
    CalibrateOption,
    ExtraOption,
    JsonOption,
    KeepOption,
    MaxRamOption,
    ModelOption,
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
    max_ram: MaxRamOption = None,
    extra: ExtraOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say for every op which unit runs it, which rule decided, and what would change that."""
    from pillion.cli import report
    from pillion.cli.request import Request, build, parse_size
    from pillion.stripes import memory_wish

    request = Request(
        model,
        target,
        True,
        calibrate,
        weights,
        parse_size(input_size),
        keep_on_cpu=tuple(keep_on_cpu or ()),
        trust_pickle=trust_pickle,
        memory=memory_wish(max_ram, extra),
    )
    with report.progress(quiet=as_json) as progress:
        program = build(request, progress)
    report.show(report.explained(program), as_json, report.explain_columns(program))
