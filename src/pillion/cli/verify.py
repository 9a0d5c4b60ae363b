# SPDX-License-Identifier: Apache-2.0
"""`pillion verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.cli.application import app
from pillion.cli.options import (
    CalibrateOption,
    IoDtypeOption,
    IoLayoutOption,
    JsonOption,
    KeepOption,
    QuantizeOption,
    SizeOption,
    TrustOption,
    WeightsOption,
)
from pillion.errors import PillionError
from pillion.outside.files import suffix_of

if TYPE_CHECKING:
    from pillion.ir.types import Array
    from pillion.run.verify import Verification


@app.command()
def verify(
    program: Annotated[
        Optional[Path], typer.Argument(help="A .pte file or a C project that `pillion compile` wrote.")
    ] = None,
    model: Annotated[
        Optional[str], typer.Option("-m", "--model", help="Or a model, as for `pillion compile`.")
    ] = None,
    target: Annotated[
        Optional[str],
        typer.Option(
            "-t", "--target", help="What to compile the model for; of a .pte, another core than its own."
        ),
    ] = None,
    quantize: QuantizeOption = False,
    calibrate: CalibrateOption = None,
    weights: WeightsOption = None,
    trust_pickle: TrustOption = False,
    input_size: SizeOption = None,
    io_dtype: IoDtypeOption = "float32",
    io_layout: IoLayoutOption = "nchw",
    keep_on_cpu: KeepOption = None,
    samples: Annotated[int, typer.Option(min=1, help="How many random inputs.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Which random inputs.")] = 0,
    input: Annotated[
        Optional[list[Path]], typer.Option("-i", "--input", help="A .npy file for each input, instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a program on everything that can run it, and compare all bytes."""
    from pillion.cli import report
    from pillion.cli.request import Request, build, check_program, parse_size, read_inputs

    _check_request(program, model, target)
    arrays = read_inputs(input) if input else None
    if program is not None:
        check_program(program)
        _show(_verify_file(program, target, samples, seed, arrays), as_json)
        return
    request = Request(
        model or "",
        target or "",
        quantize,
        calibrate,
        weights,
        parse_size(input_size),
        io_dtype,
        io_layout,
        keep_on_cpu=tuple(keep_on_cpu or ()),
        trust_pickle=trust_pickle,
    )
    with report.progress(quiet=as_json) as progress:
        built = build(request, progress)
    _show(built.verify(samples, seed=seed, inputs=arrays), as_json)


def _check_request(program: Path | None, model: str | None, target: str | None) -> None:
    if (program is None) == (model is None):
        raise PillionError(
            "one program is verified",
            rule="the path of a .pte file or a C project, or --model and --target",
            here="neither" if model is None else f"{program} and --model {model}",
            help="pillion verify ds_cnn.pte, or pillion verify -m ds_cnn --target cortex-m55 --quantize",
        )
    if model is not None and target is None:
        raise PillionError(
            f"`{model}` is compiled for nothing",
            rule="--target goes with --model",
            here="no --target",
            help="--target cortex-m55+int8 (`pillion targets` lists all)",
        )


def _verify_file(
    path: Path, target: str | None, samples: int, seed: int, arrays: list[Array] | None
) -> Verification:
    """A program that was written before: a .pte, or the folder of a C project."""
    from pillion.cli import report
    from pillion.compiler import load
    from pillion.run.verify import verify_project

    if suffix_of(path) != ".pte":
        return verify_project(path, samples, seed=seed, inputs=arrays)
    program = load(path, target)
    assert program.file is not None
    if program.file.core and not program.file.is_recorded:
        report.warn(f"{path} was changed after Pillion wrote it: what its calls compute now is verified")
    if not (target or program.file.core):
        raise PillionError(
            f"{path} does not say for which core it was made",
            rule="a program that Pillion has not written has no record of its core",
            here="no --target",
            help="--target cortex-m55 (`pillion targets` lists all)",
        )
    return program.verify(samples, seed=seed, inputs=arrays)


def _show(verification: Verification, as_json: bool) -> None:
    """The table, what differs, and the exit code."""
    from pillion.cli import report
    from pillion.cli.verification import facts_of, words_of

    facts = facts_of(verification)
    if as_json:
        report.show(facts, as_json)
    else:
        columns = {"executors": ("executor", "bytes", "different", "seconds", "note")}
        report.show({k: v for k, v in facts.items() if k not in ("pairs", "differences")}, as_json, columns)
        for found in verification.differences:
            print(words_of(found))
    if verification.nothing_compared:
        raise _nothing_compared(verification)
    if not verification.ok:
        raise typer.Exit(1)


def _nothing_compared(verification: Verification) -> PillionError:
    """The error of a verification that is no answer, with the way to a second executor."""
    skipped = [run.skipped for run in verification.runs if run.skipped]
    ran = [run.executor for run in verification.runs if run.has_run]
    return PillionError(
        f"there is nothing to compare `{verification.model}` with",
        rule="two executors at least run the program",
        here="; ".join([f"{' and '.join(ran) or 'none'} ran", *(reason.what for reason in skipped)]),
        help="\n".join(dict.fromkeys(reason.help for reason in skipped)),
    )
