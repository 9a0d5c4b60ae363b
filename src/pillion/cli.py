# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command gathers what it needs, calls the Python API, and shows the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.errors import PillionError

app = typer.Typer(
    name="pillion",
    help="Compile PyTorch models for microcontrollers with an NPU and a Cortex-M core.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ModelOption = Annotated[
    str,
    typer.Option(
        "-m", "--model", help="A zoo name (`pillion models`), file.py:factory, a .pt2 or a .tflite file."
    ),
]
TargetOption = Annotated[str, typer.Option("-t", "--target", help="What to compile for (`pillion targets`).")]
KeepOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--keep-on-cpu", help="Pattern of op names or kinds that stay on the CPU (may be repeated)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


def main() -> None:
    """Runs the command line; what users can act on ends in one message and exit code 2."""
    try:
        app()
    except PillionError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from pillion import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def compile(
    model: ModelOption,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="What to write: a folder for a C project, or a .pte or .tflite file."
        ),
    ],
    target: TargetOption,
    quantize: Annotated[
        bool, typer.Option("-q", "--quantize", help="Quantize to int8 after training (PTQ).")
    ] = False,
    calibrate: Annotated[
        Optional[Path], typer.Option(help="Calibration data: a folder of .npy/.npz files, or one .npz.")
    ] = None,
    weights: Annotated[
        Optional[Path], typer.Option(help="Weights for the model: an .npz of its state dict.")
    ] = None,
    input_size: Annotated[
        Optional[str], typer.Option(help="Height and width for zoo models of any size: 96 or 96x128.")
    ] = None,
    io_dtype: Annotated[str, typer.Option(help="float32 or int8: what goes in and comes out.")] = "float32",
    io_layout: Annotated[str, typer.Option(help="nchw or nhwc: how images go in and come out.")] = "nchw",
    keep_on_cpu: KeepOption = None,
    only_npu: Annotated[
        bool, typer.Option("--only-npu", help="Fail if any op cannot run on the NPU.")
    ] = False,
    optimize: Annotated[
        str, typer.Option(help="speed, or size: fewer kernels, compiled to be small.")
    ] = "speed",
    intermediates: Annotated[
        Optional[Path],
        typer.Option("-i", "--intermediates", help="A folder for the graph's text after each pass."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compile a model."""
    from pillion import build, report

    request = build.Request(
        model,
        target,
        quantize,
        calibrate,
        weights,
        build.parse_size(input_size),
        io_dtype,
        io_layout,
        intermediates,
        tuple(keep_on_cpu or ()),
        only_npu,
        optimize,
    )
    with report.progress(quiet=as_json) as progress:
        program = build.build(request, progress)
    build.write(program, output)
    report.show(report.compiled(program, output), as_json)


@app.command()
def run(
    program: Annotated[Path, typer.Argument(help="A C project that `pillion compile` wrote.")],
    on: Annotated[str, typer.Option(help="host, or a board: mps2-an505, mps3-an547, …")] = "host",
    input: Annotated[
        Optional[list[Path]],
        typer.Option("-i", "--input", help="A .npy file for each input; random data if none is given."),
    ] = None,
    output: Annotated[
        Optional[list[Path]], typer.Option("-o", "--output", help="A .npy file for each output.")
    ] = None,
    profile: Annotated[bool, typer.Option(help="Count instructions and show memory (boards only).")] = False,
    native: Annotated[
        bool, typer.Option("--native", help="On the host: compile for exactly this processor.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which a board is stopped.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Run a compiled model on this computer or on an emulated board."""
    from pillion import build, report
    from pillion.emitters.c.project import read_manifest
    from pillion.executors import HOST, run_project

    if profile and on == HOST:
        raise PillionError(
            "--profile counts instructions on a board",
            rule="--on names a board",
            here=f"--on {on}",
            help="add --on mps2-an505 or --on mps3-an547",
        )
    manifest = read_manifest(program)
    arrays = build.read_inputs(input or [], manifest)
    result = run_project(program, arrays, on, profile=profile, timeout=timeout, native=native)
    build.write_outputs(output or [], result.outputs)
    report.show(report.ran(manifest, on, result), as_json)


@app.command()
def explain(
    model: ModelOption,
    target: TargetOption,
    calibrate: Annotated[Optional[Path], typer.Option(help="Calibration data, as for compile.")] = None,
    weights: Annotated[Optional[Path], typer.Option(help="Weights for the model, as for compile.")] = None,
    input_size: Annotated[Optional[str], typer.Option(help="Height and width, as for compile.")] = None,
    keep_on_cpu: KeepOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say for every op which unit runs it, which rule decided, and what would change that."""
    from pillion import build, report

    request = build.Request(
        model,
        target,
        True,
        calibrate,
        weights,
        build.parse_size(input_size),
        keep_on_cpu=tuple(keep_on_cpu or ()),
    )
    with report.progress(quiet=as_json) as progress:
        program = build.build(request, progress)
    report.show(report.explained(program), as_json)


@app.command()
def targets(as_json: JsonOption = False) -> None:
    """List what programs can be compiled for."""
    from pillion import report
    from pillion.targets import describe_targets

    report.show_rows(describe_targets(), ("name", "kernels", "board", "summary"), as_json)


@app.command()
def models(as_json: JsonOption = False) -> None:
    """List the models of the zoo."""
    from pillion import report, zoo

    rows = [
        {
            "name": m.name,
            "aliases": ", ".join(m.aliases),
            "input": "x".join(map(str, m.input_shape)),
            "summary": m.summary,
        }
        for m in zoo.MODELS.values()
    ]
    report.show_rows(rows, ("name", "aliases", "input", "summary"), as_json)


@app.command()
def ops(as_json: JsonOption = False) -> None:
    """List the operators."""
    from pillion import report
    from pillion.ops.describe import describe_ops

    report.show_rows(describe_ops(), ("op", "summary", "quantization"), as_json)


if __name__ == "__main__":
    main()
