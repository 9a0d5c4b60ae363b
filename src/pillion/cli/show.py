# SPDX-License-Identifier: Apache-2.0
"""`pillion show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pillion.cli import screen
from pillion.cli.application import app
from pillion.cli.help import LOOK
from pillion.cli.options import JsonOption
from pillion.errors import PillionError
from pillion.outside.files import regular_file


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion show build/npu_segment_0.bin              what the NPU does, step by step
pillion show build/npu_segment_0.bin --commands   every command, with its fields
""",
)
def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A segment's code, `npu_segment_N.bin` of a C project.")
    ],
    commands: Annotated[
        bool, typer.Option("--commands", help="Every command instead of every step.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what an NPU is told to do.

    The code of a segment is taken apart, and each bit of it is understood or refused: it is no rough picture."""
    from pillion.targets import NPUS

    payload = regular_file(file, ".bin").read_bytes()
    for npu in NPUS.values():
        if npu.show is not None and (lines := _lines(npu.show(payload, commands))) is not None:
            screen.show({"file": str(file), "npu": lines[0], "steps": lines[1:]}, True) if as_json else print(
                *lines, sep="\n"
            )
            return
    raise PillionError(
        f"`{file}` is no code that can be shown",
        rule=f"code of {', '.join(npu.name for npu in NPUS.values() if npu.show)}",
        here=f"{len(payload)} bytes that begin with {payload[:16]!r}",
        help="compile for such an NPU with its compiler installed: `pillion doctor`; then show npu_segment_0.bin of the folder",
    )


def _lines(found: Iterator[str] | None) -> list[str] | None:
    return None if found is None else list(found)
