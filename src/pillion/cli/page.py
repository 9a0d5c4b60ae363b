# SPDX-License-Identifier: Apache-2.0
"""`pillion report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.cli import screen
from pillion.cli.application import app
from pillion.cli.data_options import Fitting
from pillion.cli.groups import How, InParts, NamedModel
from pillion.cli.help import LOOK
from pillion.cli.options import ImpliedOption, JsonOption
from pillion.cli.request import Request, build, check_there
from pillion.errors import PillionError
from pillion.outside.files import suffix_of
from pillion.outside.user_code import split_spec

if TYPE_CHECKING:
    from pillion.program import Program


@app.command(
    "report",
    rich_help_panel=LOOK,
    epilog="""
pillion report ds_cnn -t cortex-m33 -o report.html           graph, memory, work, placement
pillion report net.py:Net -t cortex-m55 --calibrate samples/ -o net.html   and what quantization does
pillion report kws.pte -o kws.html                          a program as it was written
""",
)
def report_command(
    *,
    model: NamedModel,
    output: Annotated[Optional[Path], typer.Option("-o", "--output", help="The .html file to write.")] = None,
    target: Annotated[
        Optional[str],
        typer.Option(
            "-t", "--target", help="What to compile for. A .pte is shown as it is, unless a target is named."
        ),
    ] = None,
    data: Annotated[
        Optional[Path],
        typer.Option(help="Samples that show what quantization does; without it, those of --calibrate."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many of them to look at, at most.")] = 16,
    measure: Annotated[
        bool, typer.Option(help="Count instructions in the emulator, where the tools are there.")
    ] = True,
    quantize: ImpliedOption = True,
    how: How,
    fitting: Fitting,
    parts: InParts,
    as_json: JsonOption = False,
) -> None:
    """Show a compiled model on one page.

    Graph, memory over time, work of each op, quality of quantization, placement: an .html file that opens from disk."""
    from pillion.cli.pages import check_page, gathered, written

    _want_somewhere(model.name, output, as_json)
    check_page(output)
    if data is not None:
        check_there(split_spec(str(data))[0])
    request = Request(model.name, target or "", True, how, parts)
    if how.quantizing.calibrate is not None or data is None:
        request = fitting.fitted(request)
    with screen.progress(quiet=as_json) as progress:
        program = _program(request, progress)
    facts = gathered(
        program,
        request,
        data or how.quantizing.calibrate,
        opened=None if data is None else fitting.opened(data),
        samples=samples,
        measure=measure,
        quiet=as_json,
    )
    page = written(facts, output) if output is not None else {}
    shown = {"model": facts.model, "target": facts.target, "ops": len(facts.ops), **page}
    screen.show(facts.as_data() if as_json else shown, as_json)


def _want_somewhere(model: str, output: Path | None, as_json: bool) -> None:
    """Raises where a report would go nowhere."""
    if output is None and not as_json:
        raise PillionError(
            "the report has no place to go",
            rule="-o names an .html file; --json prints the facts",
            here="neither",
            help=f"pillion report {model} -o report.html",
        )


def _program(request: Request, progress: object) -> Program:
    """Compiles the model; a .pte without a target is shown as it was written."""
    from pillion.compiler import load

    if request.target:
        return build(request, progress)  # type: ignore[arg-type]  # of rich, or none
    if suffix_of(request.model) == ".pte":
        return load(request.model)
    raise PillionError(
        f"`{request.model}` is compiled for nothing",
        rule="--target goes with all models but .pte files, which say what they were compiled for",
        here="no --target",
        help="--target cortex-m55 (`pillion targets` lists all)",
    )
