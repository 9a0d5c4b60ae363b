# SPDX-License-Identifier: Apache-2.0
"""`pillion verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.cli.app import app
from pillion.cli.options import (
    CalibrateOption,
    JsonOption,
    KeepOption,
    SizeOption,
    WeightsOption,
)
from pillion.errors import PillionError

if TYPE_CHECKING:
    from pillion.verifying import Verification


@app.command()
def verify(
    program: Annotated[
        Optional[Path], typer.Argument(help="A .pte file or a C project that `pillion compile` wrote.")
    ] = None,
    model: Annotated[
        Optional[str], typer.Option("-m", "--model", help="Or a model, as for `pillion compile`.")
    ] = None,
    target: Annotated[
        Optional[str], typer.Option("-t", "--target", help="What to compile the model for.")
    ] = None,
    quantize: Annotated[
        bool, typer.Option("-q", "--quantize", help="Quantize to int8 after training (PTQ).")
    ] = False,
    calibrate: CalibrateOption = None,
    weights: WeightsOption = None,
    input_size: SizeOption = None,
    io_dtype: Annotated[str, typer.Option(help="float32 or int8: what goes in and comes out.")] = "float32",
    io_layout: Annotated[str, typer.Option(help="nchw or nhwc: how images go in and come out.")] = "nchw",
    keep_on_cpu: KeepOption = None,
    samples: Annotated[int, typer.Option(min=1, help="How many random inputs.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Which random inputs.")] = 0,
    input: Annotated[
        Optional[list[Path]], typer.Option("-i", "--input", help="A .npy file for each input, instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a program on everything that can run it, and compare all bytes."""
    from pillion import build, report
    from pillion.verifying import verify_project

    _one_of_both(program, model, target)
    arrays = build.read_inputs(input, {"inputs": []}) if input else None
    if program is not None and program.suffix != ".pte":
        _show(verify_project(program, samples, seed=seed, inputs=arrays), as_json)
        return
    request = build.Request(
        str(program) if program else model or "",
        target or "",
        quantize,
        calibrate,
        weights,
        build.parse_size(input_size),
        io_dtype,
        io_layout,
        keep_on_cpu=tuple(keep_on_cpu or ()),
    )
    with report.progress(quiet=as_json) as progress:
        built = build.build(request, progress)
    pte = program.read_bytes() if program else None
    _show(built.verify(samples, seed=seed, inputs=arrays, pte=pte), as_json)


def _one_of_both(program: Path | None, model: str | None, target: str | None) -> None:
    """A file says for what it was compiled; a model does not."""
    if (program is None) == (model is None):
        raise PillionError(
            "one program is verified",
            rule="the path of a .pte file or a C project, or --model and --target",
            here="neither" if model is None else f"{program} and --model {model}",
            help="pillion verify ds_cnn.pte, or pillion verify -m ds_cnn --target imxrt700 --quantize",
        )
    if (target is None) != (program is not None):
        raise PillionError(
            "a program has a target, a model is given one",
            rule="--target goes with --model",
            here=f"--model {model}, no --target" if program is None else f"{program} and --target {target}",
            help="add --target" if program is None else "leave --target out",
        )


def _show(verification: Verification, as_json: bool) -> None:
    """The table, what differs, and the exit code."""
    from pillion import report
    from pillion.verifying.facts import facts_of, words_of

    facts = facts_of(verification)
    if as_json:
        report.show(facts, as_json)
    else:
        columns = {"executors": ("executor", "bytes", "different", "seconds", "note")}
        report.show({k: v for k, v in facts.items() if k not in ("pairs", "differences")}, as_json, columns)
        for found in verification.differences:
            print(words_of(found))
    if not verification.ok:
        raise typer.Exit(1)
