# SPDX-License-Identifier: Apache-2.0
"""The Typer application, and the behaviour that all commands share."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pillion.cli import console
from pillion.cli.dataclass_options import dataclass_options
from pillion.cli.environment import versions
from pillion.cli.help import HelpfulCommand, HelpfulGroup, option
from pillion.host_io.progress import print_above_bars


class Application(typer.Typer):
    """The Typer application; `HelpfulCommand` lays out the help of every command."""

    def command(self, *names: str, **more: Any) -> Callable[[Any], Any]:  # type: ignore[override]  # less is known
        """Registers a function as a command. Fields of dataclass parameters become options."""
        add = super().command(*names, **{"cls": HelpfulCommand, **more})

        def added(function: Any) -> Any:
            add(dataclass_options(function))
            return function

        return added


app = Application(
    name="pillion",
    cls=HelpfulGroup,
    help="Compile PyTorch models for microcontrollers with a Cortex-M core and, on some, an NPU.\n\n"
    "Writes a C project, an ExecuTorch program (.pte) or a .tflite file, in int8 and, where wanted, 16 or 4 bits, with outputs that this computer reproduces bit for bit.",
    epilog="""
pillion new kws/                                              a starter project
pillion compile ds_cnn -t cortex-m55 -q -o kws_fw/         a zoo model as C
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
"""Garbage collection threshold. Importing torch allocates so many permanent objects that the default 700 costs a
sixth of a compilation."""
COMPLETING = "_PILLION_COMPLETE"
"""The environment variable by which a shell requests completions."""


def run_command_line() -> None:
    """Runs the typed command and returns its exit code. Unlike Typer's own runner, it lets interrupts and broken
    pipes through."""
    console.warned.clear()
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
        if not hasattr(error, "format_message"):  # typer's class of input errors
            raise
        _print_usage_error(error)


def _print_usage_error(error: Any) -> None:
    """Prints a usage error in the form of all errors."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        command = context.command_path if context is not None else "pillion"
        print_above_bars(f"error: {message[:1].lower()}{message[1:].rstrip('.')}")
        print_above_bars(f"  help  {command} --help")
    sys.exit(getattr(error, "exit_code", 2))


@app.callback(invoke_without_command=True)
def handle_root_options(
    version: Annotated[
        bool, option(None, "Show the versions of Pillion and of the packages it uses.", "--version")
    ] = False,
) -> None:
    """Handles the options of `pillion` itself."""
    if version:
        print("\n".join(versions()))
        raise typer.Exit
