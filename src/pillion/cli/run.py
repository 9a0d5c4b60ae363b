# SPDX-License-Identifier: Apache-2.0
"""The command `pillion run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.boards.board import BOARDS, find_board
from pillion.boards.serial_transport import is_board_place
from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.help import CHECK, RUNNING, argument, option
from pillion.cli.option_groups import TimingOptions
from pillion.cli.options import JsonOption
from pillion.cli.request import read_inputs, require_compiled_program, write_outputs
from pillion.cli.run_output import run_facts
from pillion.errors import PillionError, require_one_of
from pillion.host_io.atomic_files import suffix_of
from pillion.option_values import EXECUTORS
from pillion.registry import REGISTRY

if TYPE_CHECKING:
    from pillion.ir.stream_io import Streaming
    from pillion.run.executor import RunOptions, RunResult
    from pillion.run.time_estimate import TimeEstimate, TimingConditions

    Ran = tuple[str, RunResult, TimeEstimate | None, Streaming | None]
    """Name, result, time estimate and streaming of a run."""


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion run kws_fw/                                         on this computer, random input
pillion run kws_fw/ -i x.npy -o y.npy                       the output as an array
pillion run kws_fw/ --on mps3-an547 --profile               instructions and memory of each op
pillion run kws_fw/ --on serial:/dev/ttyACM0 --profile      on a chip: cycles of each op
pillion run kws.plm --on mps3-an547                         a program image, in a firmware with its kernels
pillion run kws.pte --on executorch                         in ExecuTorch's own runtime
""",
)
def run(
    *,
    program: Annotated[
        Path,
        argument(
            "A .pte or .plm file or C project folder that `pillion compile` wrote.",
            metavar="PROGRAM",
            complete=completion.complete_programs,
        ),
    ],
    on: Annotated[
        str,
        option(
            RUNNING,
            "Place: host, npu, a board, serial:PORT; .pte: reference, litert, executorch too.",
            metavar="PLACE",
            complete=completion.complete_executors,
        ),
    ] = "host",
    input: Annotated[
        Optional[list[Path]],
        option(
            RUNNING,
            "Input from this .npy file; one per input (default: random inputs).",
            "-i --input",
            metavar="FILE",
        ),
    ] = None,
    output: Annotated[
        Optional[list[Path]],
        option(RUNNING, "Write an output to this .npy file; one per output.", "-o --output", metavar="FILE"),
    ] = None,
    profile: Annotated[
        bool, option(RUNNING, "On a board: count instructions or cycles per op, and memory.")
    ] = False,
    measurements: Annotated[
        Optional[Path],
        option(
            RUNNING,
            "With --profile at a serial port: keep what was measured here.",
            "--measurements",
            metavar="DIR",
        ),
    ] = None,
    native: Annotated[
        bool, option(RUNNING, "On the host: use all processor instructions; same bytes, faster.", "--native")
    ] = False,
    selftest: Annotated[
        bool, option(RUNNING, "Run the project's self-test; exit with 1 on a difference.", "--selftest")
    ] = False,
    timeout: Annotated[float, option(RUNNING, "Time limit for a run.", metavar="SECONDS")] = 60.0,
    timing: TimingOptions,
    as_json: JsonOption = False,
) -> None:
    """Run a compiled model here, on an emulated board, or on a chip.

    `pillion targets` lists the board of each target. Running a C project compiles and executes its code: run
    only projects that you trust."""
    _require_place(on, profile=profile, measurements=measurements, timing=timing)
    require_compiled_program(program)
    from pillion.cli import selftest_output, time_output
    from pillion.run.executor import RunOptions

    conditions = timing.conditions
    if selftest:
        selftest_output.refuse_other_run_options(
            {"--input": input, "--output": output, "--profile": profile, "--clock": timing.clock}
        )
        selftest_output.run_and_print_selftest(program, on, timeout, as_json)
        return
    run_one = {".pte": _run_file, ".plm": _run_image}.get(suffix_of(program), _run_project)
    from pillion.run.image_board import is_image_file

    if is_image_file(program):
        on, run_one = _image_board(program, on), _run_image
    options = RunOptions(timeout, profile, native)
    with console.progress_bar(quiet=as_json):
        model, result, time, streaming = run_one(program, on, input or [], options, conditions)
    write_outputs(output or [], result.outputs)
    console.print_facts(
        {
            **time_output.profile_with_times(run_facts(model, on, result, streaming), time),
            **time_output.time_facts(time, as_json, in_short=not profile),
            **time_output.kept_measurement_facts(measurements, program, result, time),
        },
        as_json,
    )


def _require_place(on: str, *, profile: bool, measurements: Path | None, timing: TimingOptions) -> None:
    """Raises if the place is unknown, or does not measure what is asked for."""
    on_line = is_board_place(on)
    if not on_line:
        places = dict.fromkeys((*EXECUTORS, *REGISTRY.executors, *BOARDS, "serial:PORT"))
        require_one_of("--on", on, tuple(places))
    if (profile or timing.clock) and on not in BOARDS and not on_line:
        raise PillionError(
            f"{'--profile' if profile else '--clock'} counts instructions on a board",
            rule="--on names a board",
            here=f"--on {on}",
            help="add --on mps2-an505 or --on mps3-an547",
        )
    if measurements is not None and not (on_line and profile):
        raise PillionError(
            "only a profile of a board at a line is kept",
            rule="--measurements goes with --profile and --on serial:PORT",
            here=f"--on {on}{' --profile' if profile else ''}",
            help="leave --measurements out, or add both",
        )


def _run_project(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: TimingConditions | None
) -> Ran:
    from pillion.cli import time_output
    from pillion.emitters.c.manifest import read_manifest
    from pillion.run.executor_list import run_folder

    manifest = read_manifest(program)
    arrays = read_inputs(inputs, manifest.inputs)
    result = run_folder(program, [arrays], on, options)[0]
    if result.measured is not None:
        time = time_output.estimate_measured_time(program, conditions, arrays, result.measured, options)
    else:
        time = time_output.estimate_project_time(program, conditions, arrays, on, options)
    return manifest.model, result, time, manifest.stream


def _image_board(program: Path, on: str) -> str:
    """Returns the board that runs a program image: `host` stands for the one with its core."""
    from pillion.run.image_board import board_of, runnable_image

    return board_of(runnable_image(program), None if on == "host" else on).name


def _run_image(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: TimingConditions | None
) -> Ran:
    """Runs a program image in a firmware with its kernels."""
    import tempfile

    from pillion.run.image_board import image_firmware, image_result, runnable_image
    from pillion.run.input_checks import check_arrays

    image = runnable_image(program)
    if options.profile or options.native or conditions is not None:
        raise PillionError(
            f"{program} is not measured op by op",
            rule="a program image does not name its ops, and holds kernels of its core alone",
            here="--profile, --native, --clock or a memory option",
            help="compile the model to a C project (-o FOLDER/), which takes the same instructions within 1 % in most models",
        )
    board = find_board(on)
    arrays = read_inputs(inputs, image.inputs)
    check_arrays(image.inputs, arrays)
    with tempfile.TemporaryDirectory(prefix="pillion-") as folder:
        firmware = image_firmware(Path(folder), image.kernels, board)
        ran = firmware.run(image.content, [arrays], profile=options.profile, timeout=options.timeout)
    return image.name, image_result(image, ran), None, None


def _run_file(
    program: Path, on: str, inputs: list[Path], options: RunOptions, conditions: TimingConditions | None
) -> Ran:
    from pillion.cli import time_output
    from pillion.compiler import load
    from pillion.run.executor_list import find_executor

    find_executor(on)
    loaded = load(program, board=BOARDS.get(on))
    arrays = read_inputs(inputs, loaded.graph.inputs)
    result = loaded.measure(
        *arrays, on=on, profile=options.profile, timeout=options.timeout, native=options.native
    )
    time = time_output.estimate_program_time(
        loaded, conditions, on=on, sample=arrays, timeout=options.timeout, quiet=True
    )
    return loaded.graph.name, result, time, None
