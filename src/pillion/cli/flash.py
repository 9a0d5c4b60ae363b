# SPDX-License-Identifier: Apache-2.0
"""The command `pillion flash`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Annotated, Optional

from pillion.boards.flash_programmer import flash_program
from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.help import CHECK, argument, option
from pillion.cli.options import JsonOption
from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file


@app.command(
    rich_help_panel=CHECK,
    epilog="""
pillion flash app/build/app.elf --chip stm32f407vg
pillion flash app/build/app.elf --chip rp2350 --build "make -C app" --project kws_fw/ --on serial:/dev/ttyACM0
""",
)
def flash(
    *,
    image: Annotated[Path, argument("Linked program: an .elf, .hex or .bin file.", metavar="FILE")],
    chip: Annotated[
        str, option(None, "Chip by its name in pyOCD (`pyocd list --targets`).", "--chip", metavar="NAME")
    ],
    probe: Annotated[
        Optional[str], option(None, "Id of the debug probe, if there are several.", metavar="ID")
    ] = None,
    build: Annotated[
        Optional[str], option(None, "Command that builds FILE first.", metavar="COMMAND")
    ] = None,
    project: Annotated[
        Optional[Path], option(None, "C project in the program: run its self-test afterwards.", metavar="DIR")
    ] = None,
    on: Annotated[
        Optional[str],
        option(
            None,
            "With --project: where the board answers then, such as serial:/dev/ttyACM0.",
            "--on",
            metavar="PLACE",
            complete=completion.complete_executors,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Flash a program through a debug probe, and run its self-test.

    The program is linked by your own project or IDE, whose start-up code and linker script are the chip's. The
    command of --build is executed."""
    if (project is None) != (on is None):
        raise PillionError(
            "a self-test needs the project and the place where its board answers",
            rule="--project and --on go together",
            here="--project alone" if project else "--on alone",
            help="--project kws_fw/ --on serial:/dev/ttyACM0",
        )
    if build is not None:
        _build(build)
    regular_file(image, "linked program")
    from pillion.cli.selftest_output import run_and_print_selftest

    with console.progress_bar(quiet=as_json, what=f"flashing {chip}"):
        flash_program(image, chip, probe)
    if project is not None and on is not None:
        run_and_print_selftest(project, on, 60.0, as_json)
    else:
        console.print_facts({"flashed": str(image), "chip": chip}, as_json)


def _build(command: str) -> None:
    """Runs a build command; raises with its last lines if it fails."""
    try:
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, errors="replace", check=False
        )
        here = ""
        if done.returncode:
            here = (done.stdout + done.stderr).strip()[-800:] or f"status {done.returncode}"
    except (OSError, ValueError) as error:
        here = str(error)
    if here:
        raise PillionError(
            "the program was not built",
            rule="the command of --build ends with 0",
            here=here,
            help=f"run it by itself: {command}",
        )
