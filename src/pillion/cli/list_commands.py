# SPDX-License-Identifier: Apache-2.0
"""The commands `pillion targets`, `models`, `passes` and `ops`."""

from __future__ import annotations

from typing import Annotated, Optional

from pillion import zoo
from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.help import LOOK, option
from pillion.cli.options import JsonOption
from pillion.errors import PillionError


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion targets            names for --target, boards for --on
""",
)
def targets(as_json: JsonOption = False) -> None:
    """List the chips and cores that programs can be compiled for."""
    from pillion.targets import describe_targets

    console.show_rows(describe_targets(), ("name", "kernels", "board", "summary"), as_json)


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion models             names for --model
pillion compile -m mobilenet_v2 --input-size 96 -t cortex-m55 -q -o mv2_fw/
""",
)
def models(as_json: JsonOption = False) -> None:
    """List the models that come with Pillion.

    Their weights are random: pass your own with --weights, or train with `pillion train`."""
    rows = [
        {
            "name": m.name,
            "aliases": ", ".join(m.aliases),
            "input": "x".join(map(str, m.input_shape)),
            "summary": m.summary,
        }
        for m in zoo.MODELS.values()
    ]
    console.show_rows(rows, ("name", "aliases", "input", "summary"), as_json)


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion passes             names of the files that --intermediates writes
""",
)
def passes(as_json: JsonOption = False) -> None:
    """List the graph passes in running order, and when each runs."""
    from pillion.pass_pipeline import describe_passes

    console.show_rows(describe_passes(), ("pass", "when", "summary"), as_json)


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion ops                          the operators of programs
pillion ops --device npu             the rules of an NPU
pillion ops --device cortex-m55      the kernels of a core
pillion ops --pytorch                how PyTorch operators are compiled
""",
)
def ops(
    device: Annotated[
        Optional[str],
        option(
            None,
            "Show the rules of an NPU, or the kernels of a core: npu, cortex-m55.",
            metavar="NAME",
            complete=completion.complete_devices,
        ),
    ] = None,
    pytorch: Annotated[
        bool, option(None, "Show PyTorch's operators and how each is compiled.", "--pytorch")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the operators, or a device's rules and kernels for them."""
    from pillion.ops.op_docs import describe_ops

    if pytorch and device is not None:
        raise PillionError(
            "two lists are asked for",
            rule="--pytorch or --device",
            here=f"--pytorch --device {device}",
            help="leave one of them out",
        )
    if pytorch:
        from pillion.importers.torch.operators import COLUMNS, pytorch_operators

        console.show_rows(pytorch_operators(), COLUMNS, as_json)
    elif device is None:
        console.show_rows(describe_ops(), ("op", "summary", "quantization"), as_json)
    else:
        from pillion.cli.catalog import describe_device

        console.show_rows(*describe_device(device), as_json)
