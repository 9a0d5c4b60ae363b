# SPDX-License-Identifier: Apache-2.0
"""`pillion targets`, `models` and `ops`: what there is."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from pillion.cli.application import app
from pillion.cli.options import JsonOption
from pillion.errors import PillionError


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
def ops(
    device: Annotated[
        Optional[str],
        typer.Option(
            help="An NPU: its rules, op by op. A core: its kernels. A target: those of its NPU or core."
        ),
    ] = None,
    pytorch: Annotated[
        bool, typer.Option("--pytorch", help="PyTorch's operators, and what becomes of each.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the operators, or what a device makes of them."""
    from pillion import report
    from pillion.ops.describe import describe_ops

    if pytorch and device is not None:
        raise PillionError(
            "two lists are asked for",
            rule="--pytorch or --device",
            here=f"--pytorch --device {device}",
            help="leave one of them out",
        )
    if pytorch:
        from pillion.quantize.operators import COLUMNS, pytorch_operators

        report.show_rows(pytorch_operators(), COLUMNS, as_json)
    elif device is None:
        report.show_rows(describe_ops(), ("op", "summary", "quantization"), as_json)
    else:
        from pillion.listings import describe_device

        report.show_rows(*describe_device(device), as_json)
