# SPDX-License-Identifier: Apache-2.0
"""`pillion compare`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from pillion.cli import completion, screen
from pillion.cli.application import app
from pillion.cli.data_options import Read
from pillion.cli.evaluate import FloatOption, NativeOption, OptionalTarget, WorkersOption
from pillion.cli.groups import How, NamedProgram
from pillion.cli.help import CHECK, DATA
from pillion.cli.options import ImpliedOption, JsonOption
from pillion.cli.request import Request
from pillion.errors import PillionError
from pillion.outside.files import made, write_whole, writing

if TYPE_CHECKING:
    from pillion.cli.named_program import Named


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion compare net.py:Net -t cortex-m55 -d samples.npz --calibrate samples.npz   where precision is lost
pillion compare kws.pte -d test.npz --float kws.py:Net -o layers.svg              with a picture
pillion compare old.pte new.pte -d test.npz                                       what changes between two programs
""",
)
def compare(
    *,
    program: NamedProgram,
    other: Annotated[
        Optional[str],
        typer.Argument(
            metavar="OTHER",
            help="A second program: what changes from the first to it is shown.",
            autocompletion=completion.models,
        ),
    ] = None,
    data: Annotated[
        Optional[str],
        typer.Option(
            "-d", "--data", metavar="PATH", help="Data, as for `pillion eval`.", rich_help_panel=DATA
        ),
    ] = None,
    target: OptionalTarget = None,
    float_model: FloatOption = None,
    limit: Annotated[
        Optional[int],
        typer.Option(min=1, help="The most samples: 8 if not given for layers, all for two programs."),
    ] = None,
    picture: Annotated[
        Optional[Path], typer.Option("-o", "--output", help="An .svg file for the picture of the layers.")
    ] = None,
    metric: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="METRIC",
            help="Of two programs: as for `pillion eval`. May be repeated.",
            rich_help_panel=DATA,
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            help="Of two programs: link for the emulated core and count instructions, where the tools are there."
        ),
    ] = True,
    native: NativeOption = False,
    workers: WorkersOption = None,
    read: Read,
    quantize: ImpliedOption = True,
    how: How,
    as_json: JsonOption = False,
) -> None:
    """Show where a program loses precision, or what two differ in.

    With one program, layer by layer against its float model, the layer that costs most first. With two, what changes in RAM, flash,
    instructions and answers."""
    from pillion.cli.named_program import Named

    reading = read.reading
    request = Request(program.name, target or "", True, how)
    named = Named(request, float_model, reading)
    if other is None:
        _layers(named, data, reading, limit, picture, as_json)
        return
    if picture is not None or float_model is not None:
        raise _only_of_layers(picture, float_model)
    second = Named(replace(request, model=other), reading=reading)
    _two(
        named,
        second,
        data,
        metric,
        as_json,
        measure=measure,
        limit=limit,
        native=native,
        workers=workers,
        reading=reading,
    )


def _layers(
    named: Named, data: str | None, reading: Any, limit: int | None, picture: Path | None, as_json: bool
) -> None:
    from pillion.cli.comparison import COLUMNS, facts_of_layers, helps, layers_on_screen
    from pillion.data.given import open_data
    from pillion.evaluation.chart import svg
    from pillion.evaluation.compare import SAMPLES, compare_layers
    from pillion.importers.torch.float_tensors import FloatTensors
    from pillion.program import Program

    if data is None:
        raise _no_data(named.spec)
    _check_picture(picture)
    source = open_data(data, reading)
    with screen.progress(quiet=as_json) as progress:
        built = named.program(progress)
    floats = named.floats()
    if not isinstance(built, Program):
        raise _no_graph(named.spec)
    if floats is None:
        raise _no_float(named.spec)
    with screen.progress(quiet=as_json, what="comparing") as progress:
        found = compare_layers(
            built,
            floats,
            FloatTensors(floats, built.target.quantization),
            source,
            limit=limit or SAMPLES,
            progress=progress,
        )
    if picture is not None:
        write_whole(picture, svg(found).encode())
    screen.show(facts_of_layers(found) if as_json else layers_on_screen(found), as_json, {"layers": COLUMNS})
    for line in [] if as_json else helps(found):
        print(line)


def _two(
    first: Named, second: Named, data: str | None, metric: list[str] | None, as_json: bool, **options: Any
) -> None:
    from pillion.cli.comparison import facts_of_two
    from pillion.evaluation.compare import compare_programs

    with screen.progress(quiet=as_json) as progress:
        programs = first.program(progress), second.program(progress)
    with screen.progress(quiet=as_json, what="evaluating") as progress:
        found = compare_programs(
            *programs, (first.spec, second.spec), data, metric, progress=progress, **options
        )
    screen.show(facts_of_two(found), as_json)


def _check_picture(picture: Path | None) -> None:
    if picture is not None and picture.suffix.lower() != ".svg":
        raise PillionError(
            f"{picture} cannot be drawn",
            rule="the picture of the layers is an .svg file",
            here=f"suffix {picture.suffix}" if picture.suffix else "no suffix",
            help=f"-o {picture.stem}.svg",
        )
    if picture is not None:
        with writing(picture):  # before the work, not after it
            made(picture.parent)


def _no_data(spec: str) -> PillionError:
    return PillionError(
        f"`{spec}` cannot be compared without data",
        rule="layers are compared on samples: --data; or two programs are named",
        here="no --data, no second program",
        help=f"pillion compare {spec} --data samples.npz",
    )


def _no_float(spec: str) -> PillionError:
    return PillionError(
        f"`{spec}` has no float model beside it",
        rule="layers are compared with those of the float model that the program was compiled from",
        here="no --float",
        help="--float file.py:Net, a name that `pillion models` lists, or a .pt2",
    )


def _no_graph(spec: str) -> PillionError:
    return PillionError(
        f"the layers of {spec} are not known",
        rule="a .pte, or a model with --target: a C project has no graph",
        here="the folder of a C project",
        help="name the model with its --target and --calibrate: its program is the same",
    )


def _only_of_layers(picture: Path | None, float_model: str | None) -> PillionError:
    option = f"--output {picture}" if picture is not None else f"--float {float_model}"
    return PillionError(
        "two programs have no picture of layers and no float model",
        rule="--output and --float go with one program, whose layers are compared with the float model's",
        here=option,
        help="leave it out, or leave the second program out",
    )
