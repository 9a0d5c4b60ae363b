# SPDX-License-Identifier: Apache-2.0
"""`pillion targets`, `models` and `ops`: what there is."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from pillion import zoo
from pillion.cli import completion, screen
from pillion.cli.application import app
from pillion.cli.help import LOOK
from pillion.cli.options import JsonOption
from pillion.errors import PillionError


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion targets            the names are for --target, the boards for --on
""",
)
def targets(as_json: JsonOption = False) -> None:
    """List the chips and cores that programs can be compiled for."""
    from pillion.targets import describe_targets

    screen.show_rows(describe_targets(), ("name", "kernels", "board", "summary"), as_json)


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion models             the names are for --model
pillion compile -m mobilenet_v2 --input-size 96 -t cortex-m55 -q -o mv2_fw/
""",
)
def models(as_json: JsonOption = False) -> None:
    """List the networks that come with Pillion.

    Their weights are random: give your own with --weights, or train them with `pillion train`."""
    rows = [
        {
            "name": m.name,
            "aliases": ", ".join(m.aliases),
            "input": "x".join(map(str, m.input_shape)),
            "summary": m.summary,
        }
        for m in zoo.MODELS.values()
    ]
    screen.show_rows(rows, ("name", "aliases", "input", "summary"), as_json)


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion ops                          what programs are made of
pillion ops --device npu             the rules of an NPU
pillion ops --device cortex-m55      the kernels of a core
pillion ops --pytorch                what becomes of torch.nn.functional and the rest
""",
)
def ops(
    device: Annotated[
        Optional[str],
        typer.Option(
            metavar="NAME",
            help="An NPU: its rules, op by op. A core: its kernels. A target: those of its NPU or core.",
            autocompletion=completion.devices,
        ),
    ] = None,
    pytorch: Annotated[
        bool, typer.Option("--pytorch", help="PyTorch's operators, and what becomes of each.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the operators, or what a device makes of them."""
    from pillion.ops.describe import describe_ops

    if pytorch and device is not None:
        raise PillionError(
            "two lists are asked for",
            rule="--pytorch or --device",
            here=f"--pytorch --device {device}",
            help="leave one of them out",
        )
    if pytorch:
        from pillion.importers.torch.operators import COLUMNS, pytorch_operators

        screen.show_rows(pytorch_operators(), COLUMNS, as_json)
    elif device is None:
        screen.show_rows(describe_ops(), ("op", "summary", "quantization"), as_json)
    else:
        from pillion.cli.listings import describe_device

        screen.show_rows(*describe_device(device), as_json)
