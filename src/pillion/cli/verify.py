# SPDX-License-Identifier: Apache-2.0
"""The command `pillion verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion import zoo
from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.data_options import Fitting, with_calibration_data
from pillion.cli.help import CHECK, RUNNING, option
from pillion.cli.option_groups import NamedProgram
from pillion.cli.options import JsonOption, OptionalTarget, QuantizeOption
from pillion.cli.request import (
    Request,
    compile_request,
    read_inputs,
    refuse_build_options,
    require_compiled_program,
    require_target,
)
from pillion.compile_options import CompileOptions
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.host_io.user_code import split_spec
from pillion.model_names import check_named, file_suffixes

if TYPE_CHECKING:
    from pillion.ir.types import Array
    from pillion.run.verify import Verification


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion verify kws.pte                              a compiled program
pillion verify kws_fw/ --samples 10                 a C project, here and on a board
pillion verify kws_fw/ --on serial:/dev/ttyACM0     also on a chip that holds the program
pillion verify ds_cnn -t cortex-m55 -q                compile and verify a model, write nothing
""",
)
def verify(
    *,
    program: NamedProgram,
    target: OptionalTarget = None,
    quantize: QuantizeOption = False,
    options: CompileOptions,
    fitting: Fitting,
    samples: Annotated[int, option(RUNNING, "Number of random inputs.", min=1, metavar="N")] = 3,
    seed: Annotated[int, option(RUNNING, "Seed of the random inputs.", min=0, metavar="N")] = 0,
    input: Annotated[
        Optional[list[Path]],
        option(
            RUNNING,
            "Input from this .npy file instead of random ones; one per input.",
            "-i --input",
            metavar="FILE",
        ),
    ] = None,
    on: Annotated[
        Optional[list[str]],
        option(
            RUNNING,
            "Also run here, such as on a chip: serial:/dev/ttyACM0. May be repeated.",
            "--on",
            metavar="PLACE",
            complete=completion.complete_executors,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a program on every executor, and compare all bytes.

    Executors are the reference, this computer, an emulated board, ExecuTorch and LiteRT, if installed (`pillion
    doctor`). The first differing op and element are shown, and the exit code is 1."""
    from pillion.run.executor_list import require_place

    for place in on or []:
        require_place(place, "--on")
    if program.named and not _is_model(program.named, target):
        path = Path(program.named)
        require_compiled_program(path)
        refuse_build_options(path, options, None if suffix_of(path) == ".pte" else target, fitting)
        arrays = read_inputs(input) if input else None
        with console.progress_bar(quiet=as_json):
            verification = _verify_file(path, target, samples, seed, arrays, on or [])
        _show_verification(verification, as_json)
        return
    if not target:
        check_named(program.name)
    require_target(program.name, target)
    arrays = read_inputs(input) if input else None
    request = with_calibration_data(Request(program.name, target or "", quantize, options), fitting)
    with console.progress_bar(quiet=as_json):
        verification = compile_request(request).verify(samples, seed=seed, inputs=arrays, on=on or [])
    _show_verification(verification, as_json)


def _is_model(named: str, target: str | None) -> bool:
    """Whether the argument is a model. A folder of that name takes precedence over the zoo."""
    if Path(named).is_dir() or suffix_of(named) == ".pte":
        return False
    looks_like_one = (
        split_spec(named)[1] or suffix_of(named) in file_suffixes() or zoo.find(named) is not None
    )
    return bool(target or looks_like_one)


def _verify_file(
    path: Path, target: str | None, samples: int, seed: int, arrays: list[Array] | None, on: list[str]
) -> Verification:
    """Verifies a .pte or the folder of a C project."""
    from pillion.compiler import load
    from pillion.run.image_board import is_image_file
    from pillion.run.image_check import verify_image
    from pillion.run.verify import verify_project

    if is_image_file(path):
        _refuse_own_inputs(path, samples, seed, arrays)
        return verify_image(path)
    if suffix_of(path) != ".pte":
        return verify_project(path, samples, seed=seed, inputs=arrays, on=on)
    program = load(path, target)
    assert program.file is not None
    if program.file.core and not program.file.is_recorded:
        console.warn(f"{path} was changed after Pillion wrote it: what its calls compute now is verified")
    if not (target or program.file.core):
        raise PillionError(
            f"{path} does not say for which core it was made",
            rule="a program that Pillion has not written has no record of its core",
            here="no --target",
            help="--target cortex-m55 (`pillion targets` lists all)",
        )
    return program.verify(samples, seed=seed, inputs=arrays, on=on)


def _refuse_own_inputs(path: Path, samples: int, seed: int, arrays: list[Array] | None) -> None:
    """Raises if an image is verified with inputs that its checksums do not cover."""
    from pillion.run.image_check import SAMPLES, SEED

    if arrays or (samples, seed) != (SAMPLES, SEED):
        raise PillionError(
            f"{path} has outputs of its own inputs alone",
            rule="a program image holds checksums of the outputs for three random inputs, and no graph",
            here="--input, --samples or --seed",
            help="leave them out, or verify the model: pillion verify MODEL -t TARGET",
        )


def _show_verification(verification: Verification, as_json: bool) -> None:
    """Prints the table and the differences, and sets the exit code."""
    from pillion.cli.verify_output import difference_lines, facts_of

    facts = facts_of(verification)
    if as_json:
        console.print_facts(facts, as_json)
    else:
        columns = {"executors": ("executor", "bytes", "different", "seconds", "note")}
        console.print_facts(
            {k: v for k, v in facts.items() if k not in ("pairs", "differences")}, as_json, columns
        )
        for difference in verification.differences:
            console.print_line(difference_lines(difference))
    if verification.nothing_compared:
        raise _nothing_compared_error(verification)
    if not verification.ok:
        raise typer.Exit(1)


def _nothing_compared_error(verification: Verification) -> PillionError:
    """Returns the error for a verification with one executor, with the way to a second."""
    skipped = [run.skipped for run in verification.runs if run.skipped]
    ran = [run.executor for run in verification.runs if run.has_run]
    return PillionError(
        f"there is nothing to compare `{verification.model}` with",
        rule="two executors at least run the program",
        here="; ".join([f"{' and '.join(ran) or 'none'} ran", *(reason.what for reason in skipped)]),
        help="\n".join(dict.fromkeys(reason.help for reason in skipped)),
    )
