# SPDX-License-Identifier: Apache-2.0
"""The command `pillion explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pillion.cli import console, program_facts
from pillion.cli.application import app
from pillion.cli.data_options import Fitting, with_calibration_data
from pillion.cli.help import LOOK
from pillion.cli.option_groups import NamedModel, TimingOptions
from pillion.cli.options import ImpliedOption, JsonOption, TargetsOption
from pillion.cli.request import Request, check_request, compile_request
from pillion.compile_options import CompileOptions
from pillion.errors import PillionError


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion explain ds_cnn -t CHIP                      with an NPU: what would move an op
pillion explain net.py:Net -t cortex-m55            which kernels, and why
pillion explain ds_cnn -t cortex-m55 -t CHIP        two chips, side by side
pillion explain ds_cnn -t cortex-m55 --json         all columns
""",
)
def explain(
    *,
    model: NamedModel,
    target: TargetsOption,
    quantize: ImpliedOption = True,
    options: CompileOptions,
    fitting: Fitting,
    timing: TimingOptions,
    as_json: JsonOption = False,
) -> None:
    """Show where each op runs, and why.

    With an NPU: the unit, the rule that decided, and a change that would move the op. On a core: the kernel and
    the reason for it. With several targets: a comparison side by side. Nothing is written."""
    request = Request(model.name, target[0], True, options)
    requests = [replace(request, target=one) for one in dict.fromkeys(target)]
    for one in requests:
        check_request(one)
    request, *_ = requests = [with_calibration_data(one, fitting) for one in requests]
    if len(requests) > 1:
        _explain_targets(requests, timing.first, as_json)
        return
    from pillion.cli import time_output

    conditions = timing.conditions
    with console.progress_bar(quiet=as_json):
        program = compile_request(request)
    time = time_output.estimate_program_time(program, conditions, quiet=as_json)
    facts = time_output.explanation_with_times(
        program_facts.explanation_facts(program), program, time, as_json
    )
    console.print_facts(
        facts, as_json, time_output.time_columns(program_facts.explain_columns(program), time)
    )


def _explain_targets(requests: Sequence[Request], timed: str | None, as_json: bool) -> None:
    if timed is not None:
        raise PillionError(
            "times are for one chip",
            rule="--clock, --npu-clock and --memories go with one --target",
            here=f"{len(requests)} targets, {timed}",
            help="leave them out, or ask for each target by itself",
        )
    from pillion.cli.target_table import columns, compare_targets

    with console.progress_bar(quiet=as_json):
        programs = {request.target: compile_request(request) for request in requests}
    console.print_facts(compare_targets(programs), as_json, columns(programs))
