# SPDX-License-Identifier: Apache-2.0
"""The command `pillion compare`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.dataclass_options import Without
from pillion.cli.evaluate import FloatOption
from pillion.cli.help import CHECK, DATA, argument, option
from pillion.cli.option_groups import EvaluationRuns, NamedProgram
from pillion.cli.options import ImpliedOption, JsonOption, OptionalTarget
from pillion.cli.request import Request
from pillion.compile_options import CompileOptions
from pillion.data.reading_options import Reading
from pillion.errors import PillionError
from pillion.host_io.atomic_files import ensure_folder, errors_naming_path, write_whole

if TYPE_CHECKING:
    from pillion.cli.named_program import NamedProgramOptions


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion compare net.py:Net -t cortex-m55 -d samples.npz --calibrate samples.npz   where precision is lost
pillion compare kws.pte -d test.npz --float kws.py:Net -o layers.svg              with a chart
pillion compare old.pte new.pte -d test.npz                                       differences of two programs
""",
)
def compare(
    *,
    program: NamedProgram,
    other: Annotated[
        Optional[str],
        argument(
            "A second program to compare with the first.",
            metavar="OTHER",
            complete=completion.complete_models,
        ),
    ] = None,
    data: Annotated[
        Optional[str], option(DATA, "Data, as in `pillion eval`.", "-d --data", metavar="PATH")
    ] = None,
    target: OptionalTarget = None,
    float_model: FloatOption = None,
    limit: Annotated[
        Optional[int], option(None, "Most samples (default: 8 for layers, all for two programs).", min=1)
    ] = None,
    picture: Annotated[
        Optional[Path], option(None, "Write a chart of the layers to this .svg file.", "-o --output")
    ] = None,
    metric: Annotated[
        Optional[list[str]],
        option(DATA, "Metric for two programs, as in `pillion eval`. May be repeated.", metavar="METRIC"),
    ] = None,
    measure: Annotated[
        bool, option(None, "Measure flash and instructions of two programs, if the tools exist.")
    ] = True,
    runs: Annotated[EvaluationRuns, Without(("agree", "agree_samples", "on", "timeout"))],
    reading: Reading,
    quantize: ImpliedOption = True,
    options: Annotated[CompileOptions, Without(("memory", "stream"))],
    as_json: JsonOption = False,
) -> None:
    """Show where a program loses precision, or how two programs differ.

    One program: compares it layer by layer with its float model, worst layer first. Two programs: compares RAM,
    flash, instructions and outputs."""
    from pillion.cli.named_program import NamedProgramOptions

    request = Request(program.name, target or "", True, options)
    named = NamedProgramOptions(request, float_model, reading)
    if other is None:
        _compare_layers(named, data, reading, limit, picture, as_json)
        return
    if picture is not None or float_model is not None:
        raise _layer_only_option_error(picture, float_model)
    second = NamedProgramOptions(replace(request, model=other), reading=reading)
    _compare_programs(
        named,
        second,
        data,
        metric,
        as_json,
        measure=measure,
        limit=limit,
        native=runs.native,
        workers=runs.workers,
        reading=reading,
    )


def _compare_layers(
    named: NamedProgramOptions,
    data: str | None,
    reading: Any,
    limit: int | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    from pillion.cli.compare_output import COLUMNS, facts_of_layers, layer_hints, layers_on_screen
    from pillion.data.python_data import open_data
    from pillion.evaluation.compare import SAMPLES, compare_layers
    from pillion.evaluation.layer_chart import layer_chart_svg
    from pillion.importers.torch.float_tensors import FloatTensors
    from pillion.program import Program

    if data is None:
        raise _missing_data_error(named.spec)
    _check_picture(picture)
    source = open_data(data, reading)
    with console.progress_bar(quiet=as_json) as progress:
        built = named.program(progress)
    floats = named.floats()
    if not isinstance(built, Program):
        raise _missing_graph_error(named.spec)
    if floats is None:
        raise _missing_float_model_error(named.spec)
    with console.progress_bar(quiet=as_json, what="comparing") as progress:
        comparison = compare_layers(
            built,
            floats,
            FloatTensors(floats, built.target.quantization),
            source,
            limit=limit or SAMPLES,
            progress=progress,
        )
    if picture is not None:
        write_whole(picture, layer_chart_svg(comparison).encode())
    console.print_facts(
        facts_of_layers(comparison) if as_json else layers_on_screen(comparison), as_json, {"layers": COLUMNS}
    )
    for line in [] if as_json else layer_hints(comparison):
        console.print_line(line)


def _compare_programs(
    first: NamedProgramOptions,
    second: NamedProgramOptions,
    data: str | None,
    metric: list[str] | None,
    as_json: bool,
    **options: Any,
) -> None:
    from pillion.cli.compare_output import program_comparison_facts
    from pillion.evaluation.compare import compare_programs

    with console.progress_bar(quiet=as_json) as progress:
        programs = first.program(progress), second.program(progress)
    with console.progress_bar(quiet=as_json, what="evaluating") as progress:
        comparison = compare_programs(
            *programs, (first.spec, second.spec), data, metric, progress=progress, **options
        )
    console.print_facts(program_comparison_facts(comparison), as_json)


def _check_picture(picture: Path | None) -> None:
    if picture is not None and picture.suffix.lower() != ".svg":
        raise PillionError(
            f"{picture} cannot be drawn",
            rule="the picture of the layers is an .svg file",
            here=f"suffix {picture.suffix}" if picture.suffix else "no suffix",
            help=f"-o {picture.stem}.svg",
        )
    if picture is not None:
        with errors_naming_path(picture):  # before the work, not after it
            ensure_folder(picture.parent)


def _missing_data_error(spec: str) -> PillionError:
    return PillionError(
        f"`{spec}` cannot be compared without data",
        rule="layers are compared on samples: --data; or two programs are named",
        here="no --data, no second program",
        help=f"pillion compare {spec} --data samples.npz",
    )


def _missing_float_model_error(spec: str) -> PillionError:
    return PillionError(
        f"`{spec}` has no float model beside it",
        rule="layers are compared with those of the float model that the program was compiled from",
        here="no --float",
        help="--float file.py:Net, a name that `pillion models` lists, or a .pt2",
    )


def _missing_graph_error(spec: str) -> PillionError:
    return PillionError(
        f"the layers of {spec} are not known",
        rule="a .pte, or a model with --target: a C project has no graph",
        here="the folder of a C project",
        help="name the model with its --target and --calibrate: its program is the same",
    )


def _layer_only_option_error(picture: Path | None, float_model: str | None) -> PillionError:
    option = f"--output {picture}" if picture is not None else f"--float {float_model}"
    return PillionError(
        "two programs have no picture of layers and no float model",
        rule="--output and --float go with one program, whose layers are compared with the float model's",
        here=option,
        help="leave it out, or leave the second program out",
    )
