# SPDX-License-Identifier: Apache-2.0
"""The command `pillion report`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.cli import console
from pillion.cli.application import app
from pillion.cli.data_options import Fitting, open_calibration_data, with_calibration_data
from pillion.cli.dataclass_options import Without
from pillion.cli.help import LOOK, option
from pillion.cli.option_groups import NamedModel, TimingOptions
from pillion.cli.options import ImpliedOption, JsonOption, OptionalTarget
from pillion.cli.request import (
    Request,
    check_there,
    compile_request,
    refuse_options_of_models,
    require_target,
)
from pillion.compile_options import CompileOptions
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.host_io.user_code import split_spec
from pillion.option_parsers import parse_bytes

if TYPE_CHECKING:
    from pillion.program import Program


@app.command(
    "report",
    rich_help_panel=LOOK,
    epilog="""
pillion report ds_cnn -t cortex-m33 -o report.html           graph, memory, work, placement
pillion report net.py:Net -t cortex-m55 --calibrate samples/ -o net.html   with quantization quality
pillion report kws.pte -o kws.html                          a compiled program, or a program image
""",
)
def report_command(
    *,
    model: NamedModel,
    output: Annotated[
        Optional[Path], option(None, "Write the report to this .html file.", "-o --output")
    ] = None,
    target: OptionalTarget = None,
    data: Annotated[
        Optional[Path], option(None, "Samples for quantization quality (default: those of --calibrate).")
    ] = None,
    samples: Annotated[int, option(None, "Most samples used for quantization quality.", min=1)] = 16,
    measure: Annotated[
        bool, option(None, "Count instructions in the emulator, if the tools are installed.")
    ] = True,
    max_flash: Annotated[
        Optional[str],
        option(
            None,
            "Flash to fit, code and constants: 1M (default: the chip's, if it is known).",
            metavar="SIZE",
        ),
    ] = None,
    quantize: ImpliedOption = True,
    timing: TimingOptions,
    options: Annotated[CompileOptions, Without(("max_flash",))],
    fitting: Fitting,
    as_json: JsonOption = False,
) -> None:
    """Show a compiled model on one page.

    Writes an .html file that needs no network: graph, memory over time, work per op, quantization quality,
    placement."""
    from pillion.cli.report_files import check_report_path, collect_facts, write_report
    from pillion.report.report_options import ReportOptions

    _require_report_output(model.name, output, as_json)
    check_report_path(output)
    if not target and _is_image(Path(model.name)):
        given = {"--data": data, "--max-flash": max_flash}
        _report_image(Path(model.name), output, measure, as_json, given, options, timing, fitting)
        return
    conditions = timing.conditions
    if data is not None:
        check_there(split_spec(str(data))[0])
    request = Request(model.name, target or "", True, options)
    if options.quantize.calibrate is not None or data is None:
        request = with_calibration_data(request, fitting)
    with console.progress_bar(quiet=as_json) as progress:
        program = _compile_or_load(request, progress)
    facts = collect_facts(
        program,
        request,
        data or options.quantize.calibrate,
        ReportOptions(
            samples=samples,
            measure=measure,
            conditions=conditions,
            max_flash=None if max_flash is None else parse_bytes(max_flash, "--max-flash "),
        ),
        opened=None if data is None else open_calibration_data(data, fitting),
        quiet=as_json,
    )
    page = write_report(facts, output) if output is not None else {}
    shown = {"model": facts.model, "target": facts.target, "ops": len(facts.ops), **page}
    console.print_facts(facts.as_data() if as_json else shown, as_json)


def _require_report_output(model: str, output: Path | None, as_json: bool) -> None:
    """Raises if the report has neither a file nor `--json`."""
    if output is None and not as_json:
        raise PillionError(
            "the report has no place to go",
            rule="-o names an .html file; --json prints the facts",
            here="neither",
            help=f"pillion report {model} -o report.html",
        )


def _is_image(path: Path) -> bool:
    from pillion.run.image_board import is_image_file

    return suffix_of(path) in (".plm", ".pte") and path.is_file() and is_image_file(path)


def _report_image(
    image: Path,
    output: Path | None,
    measure: bool,
    as_json: bool,
    given: Mapping[str, object],
    *options: object,
) -> None:
    """Reports a program image."""
    import sys
    from shlex import join

    from pillion.cli.report_files import write_report
    from pillion.report.image_report import collect_image

    refuse_options_of_models(
        image, {key: value for key, value in given.items() if value is not None}, *options
    )
    with console.progress_bar(quiet=as_json):
        facts = collect_image(image, join(["pillion", *sys.argv[1:]]), measure)
    page = write_report(facts, output) if output is not None else {}
    shown = {"model": facts.model, "core": facts.core, "ops": facts.ops, **page}
    console.print_facts(facts.as_data() if as_json else shown, as_json)


def _compile_or_load(request: Request, progress: object) -> Program:
    """Compiles the model, or reads a .pte unchanged if no target is given."""
    from pillion.compiler import load

    if not request.target and suffix_of(request.model) == ".pte":
        return load(request.model)
    require_target(request.model, request.target)
    return compile_request(request, progress)  # type: ignore[arg-type]  # of rich, or none
