# SPDX-License-Identifier: Apache-2.0
"""`pillion verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion import zoo
from pillion.cli import completion, screen
from pillion.cli.application import app
from pillion.cli.data_options import Fitting
from pillion.cli.groups import How, InParts, NamedProgram
from pillion.cli.help import CHECK, INPUT, RUNNING
from pillion.cli.options import JsonOption, QuantizeOption
from pillion.cli.request import Request, build, check_program, read_inputs, refuse_how
from pillion.errors import PillionError
from pillion.named import FILES as MODEL_FILES
from pillion.named import check_named
from pillion.outside.files import suffix_of
from pillion.outside.user_code import split_spec

if TYPE_CHECKING:
    from pillion.ir.types import Array
    from pillion.run.verify import Verification


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion verify kws.pte                              a program that was written
pillion verify kws_fw/ --samples 10                 a C project, on this computer and on a board
pillion verify ds_cnn -t cortex-m55 -q                compile a model and verify it, nothing is written
""",
)
def verify(
    *,
    program: NamedProgram,
    target: Annotated[
        Optional[str],
        typer.Option(
            *("-t", "--target"),
            metavar="TARGET",
            help="The chip or core to compile the model for; of a .pte, another core than its own.",
            autocompletion=completion.targets,
            rich_help_panel=INPUT,
        ),
    ] = None,
    quantize: QuantizeOption = False,
    how: How,
    fitting: Fitting,
    parts: InParts,
    samples: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many random inputs.", rich_help_panel=RUNNING)
    ] = 3,
    seed: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Which random inputs: another number, others.", rich_help_panel=RUNNING
        ),
    ] = 0,
    input: Annotated[
        Optional[list[Path]],
        typer.Option(
            *("-i", "--input"),
            metavar="FILE",
            help="A .npy file instead of random inputs; once for each input.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a program on all that can run it, and compare all bytes.

    The reference, this computer, an emulated board, ExecuTorch and LiteRT, as far as they are there (`pillion doctor`). Where bytes differ,
    the op and the element in which it begins are named, and the exit code is 1."""
    if program.named and not _is_model(program.named, target):
        path = Path(program.named)
        check_program(path)
        refuse_how(path, how, None if suffix_of(path) == ".pte" else target, parts, fitting)
        arrays = read_inputs(input) if input else None
        with screen.progress(quiet=as_json):
            found = _verify_file(path, target, samples, seed, arrays)
        _show(found, as_json)
        return
    _want_target(program.name, target)
    arrays = read_inputs(input) if input else None
    request = fitting.fitted(Request(program.name, target or "", quantize, how, parts))
    with screen.progress(quiet=as_json):
        found = build(request).verify(samples, seed=seed, inputs=arrays)
    _show(found, as_json)


def _is_model(named: str, target: str | None) -> bool:
    """Whether what was named by itself is a model, and no program: a folder of that name is a program before a network of the zoo."""
    if Path(named).is_dir() or suffix_of(named) == ".pte":
        return False
    looks_like_one = split_spec(named)[1] or suffix_of(named) in MODEL_FILES or zoo.find(named) is not None
    return bool(target or looks_like_one)


def _want_target(model: str, target: str | None) -> None:
    if target is None:
        check_named(model)
        raise PillionError(
            f"`{model}` is compiled for nothing",
            rule="--target goes with a model",
            here="no --target",
            help="--target cortex-m55+int8 (`pillion targets` lists all)",
        )


def _verify_file(
    path: Path, target: str | None, samples: int, seed: int, arrays: list[Array] | None
) -> Verification:
    """A program that was written before: a .pte, or the folder of a C project."""
    from pillion.compiler import load
    from pillion.run.verify import verify_project

    if suffix_of(path) != ".pte":
        return verify_project(path, samples, seed=seed, inputs=arrays)
    program = load(path, target)
    assert program.file is not None
    if program.file.core and not program.file.is_recorded:
        screen.warn(f"{path} was changed after Pillion wrote it: what its calls compute now is verified")
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
    from pillion.cli.verification import facts_of, words_of

    facts = facts_of(verification)
    if as_json:
        screen.show(facts, as_json)
    else:
        columns = {"executors": ("executor", "bytes", "different", "seconds", "note")}
        screen.show({k: v for k, v in facts.items() if k not in ("pairs", "differences")}, as_json, columns)
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
