# SPDX-License-Identifier: Apache-2.0
"""`pillion explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pillion.cli import report, screen
from pillion.cli.application import app
from pillion.cli.data_options import Fitting
from pillion.cli.groups import How, InParts, NamedModel, Timing
from pillion.cli.help import LOOK
from pillion.cli.options import ImpliedOption, JsonOption, TargetsOption
from pillion.cli.request import Request, build, check
from pillion.errors import PillionError


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion explain ds_cnn -t CHIP                      on a CHIP with an NPU: what would flip an op
pillion explain net.py:Net -t cortex-m55            which kernel, and why not a faster one
pillion explain ds_cnn -t cortex-m55 -t CHIP        two chips, side by side
pillion explain ds_cnn -t cortex-m55 --json         all columns
""",
)
def explain(
    *,
    model: NamedModel,
    target: TargetsOption,
    quantize: ImpliedOption = True,
    how: How,
    fitting: Fitting,
    parts: InParts,
    timing: Timing,
    as_json: JsonOption = False,
) -> None:
    """Say for every op who runs it, and why.

    On a chip with an NPU: on which unit, which rule decided, and what would change that. On a core alone: by which kernel, and why that
    one. With several targets: who runs each op on each of them, and what the whole takes there. Nothing is written."""
    request = Request(model.name, target[0], True, how, parts)
    requests = [replace(request, target=one) for one in dict.fromkeys(target)]
    for one in requests:
        check(one)
    request, *_ = requests = [*map(fitting.fitted, requests)]
    if len(requests) > 1:
        _side_by_side(requests, timing.first, as_json)
        return
    from pillion.cli import times

    conditions = timing.conditions
    with screen.progress(quiet=as_json):
        program = build(request)
    time = times.of_program(program, conditions, quiet=as_json)
    facts = times.explained(report.explained(program), program, time, as_json)
    screen.show(facts, as_json, times.columns(report.explain_columns(program), time))


def _side_by_side(requests: Sequence[Request], timed: str | None, as_json: bool) -> None:
    if timed is not None:
        raise PillionError(
            "times are for one chip",
            rule="--clock, --npu-clock and --memories go with one --target",
            here=f"{len(requests)} targets, {timed}",
            help="leave them out, or ask for each target by itself",
        )
    from pillion.cli.beside import beside, columns

    with screen.progress(quiet=as_json):
        programs = {one.target: build(one) for one in requests}
    screen.show(beside(programs), as_json, columns(programs))
