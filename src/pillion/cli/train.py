# SPDX-License-Identifier: Apache-2.0
"""`pillion train`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Optional

import typer

from pillion.cli import completion, report, screen
from pillion.cli.application import app
from pillion.cli.groups import Form, How, InParts, Placing, Source, want_once
from pillion.cli.help import MAKE
from pillion.cli.options import (
    ForceOption,
    JsonOption,
    ModelOption,
    OutputOption,
    SizeOption,
    TargetOption,
    WeightsOption,
)
from pillion.cli.request import Request, check_training
from pillion.outside.files import form_of
from pillion.outside.progress import shown


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion train learn.py:train -t cortex-m55 -o net_fw/              trains what learn.py:model gives
pillion train learn.py:train ds_cnn -t cortex-m33 -o kws.pte         trains a network of the zoo
""",
)
def train(
    *,
    function: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:FUNCTION",
            help="Your training loop: FUNCTION(model) trains the model and returns it.",
        ),
    ],
    named: Annotated[
        Optional[str],
        typer.Argument(
            metavar="MODEL",
            help="What it trains: a zoo name or file.py:factory; if left out, FILE.py:model.",
            autocompletion=completion.models,
            show_default=False,
        ),
    ] = None,
    output: OutputOption,
    target: TargetOption,
    model: ModelOption = None,
    weights: WeightsOption = None,
    input_size: SizeOption = None,
    form: Form,
    placing: Placing,
    parts: InParts,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train with your own loop, rounding as the chip will, and compile.

    FUNCTION(model) trains the module that it is given, and returns it. The model is compiled once before that: what would be refused
    in the end is refused before the training. What your loop prints is left alone; with --json it goes to standard error."""
    how = How(Source(weights, input_size=input_size), form=form, placing=placing)
    want_once(named, model)
    request = Request(named or model or "", target, how=how, parts=parts)
    form_of(output)
    check_training(function, request)
    from pillion.cli.training import train as run_training

    # No bars around all of it: what the loop prints would be torn by them.
    with shown(False) if as_json else nullcontext():
        program, batches = run_training(function, request, output, force=force, prints_to_stderr=as_json)
    screen.show({**report.compiled(program, output), "batches": batches}, as_json)
