# SPDX-License-Identifier: Apache-2.0
"""The application that the commands belong to, and what holds for all of them."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pillion.cli import screen
from pillion.cli.help import Command, Group
from pillion.cli.installed import versions
from pillion.cli.spread import spread


class Application(typer.Typer):
    """Commands whose help is laid out by `Command`, whoever adds them."""

    def command(self, *names: str, **more: Any) -> Callable[[Any], Any]:  # type: ignore[override]  # less is known
        """Adds a function as a command, as typer does; the fields of dataclasses that it takes are options too."""
        add = super().command(*names, **{"cls": Command, **more})

        def added(function: Any) -> Any:
            add(spread(function))
            return function

        return added


app = Application(
    name="pillion",
    cls=Group,
    help="Compile PyTorch models for microcontrollers with a Cortex-M core and, on some, an NPU.\n\n"
    "What comes out is a C project, an ExecuTorch program (.pte) or a .tflite file, all in int8, whose answers are known on this "
    "computer to the bit.",
    epilog="""
pillion new kws/                                              a project to begin with
pillion compile ds_cnn -t cortex-m55 -q -o kws_fw/         a network of the zoo as C
pillion compile net.py:Net -t cortex-m33 -q --calibrate samples/ -o net.pte
pillion run kws_fw/ --on mps3-an547 --profile                 on an emulated board
pillion COMMAND --help                                        all options of a command, with examples
""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


ALLOCATIONS_BETWEEN_COLLECTIONS = 200_000
"""Importing torch makes so many objects that stay that the usual 700 cost a sixth of a compilation."""
COMPLETING = "_PILLION_COMPLETE"
"""The variable by which a shell asks what could be typed."""


def run_command_line() -> None:
    """Runs the command that was typed, and gives its exit code. Unlike typer's own way, interruptions and broken pipes come
    through."""
    screen.warned.clear()
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # else the last collection looks through all of torch: a second and a half
    command = typer.main.get_command(app)
    if os.environ.get(COMPLETING):
        command.main(prog_name="pillion")
    try:
        with command.make_context("pillion", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's word for mistakes in what was typed
            raise
        _mistyped(error)


def _mistyped(error: Any) -> None:
    """Says what was typed wrong, in the form of all our errors."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        command = context.command_path if context is not None else "pillion"
        print(f"error: {message[:1].lower()}{message[1:].rstrip('.')}", file=sys.stderr)
        print(f"  help  {command} --help", file=sys.stderr)
    sys.exit(getattr(error, "exit_code", 2))


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version, and those of all that Pillion uses.")
    ] = False,
) -> None:
    """Handles the options of `pillion` itself, before any command."""
    if version:
        print("\n".join(versions()))
        raise typer.Exit
