# SPDX-License-Identifier: Apache-2.0
"""The application that the commands belong to, and what holds for all of them."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Annotated

import typer

app = typer.Typer(
    name="pillion",
    help="Compile PyTorch models for microcontrollers with an NPU and a Cortex-M core.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


ALLOCATIONS_BETWEEN_COLLECTIONS = 200_000
"""Importing torch makes so many objects that stay that the usual 700 cost a sixth of a compilation."""


def run_command_line() -> None:
    """Runs the command that was typed, and gives its exit code. Unlike typer's own way, interruptions and broken pipes come
    through."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # else the last collection looks through all of torch: a second and a half
    command = typer.main.get_command(app)
    try:
        with command.make_context("pillion", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except Exception as error:
        show = getattr(error, "show", None)  # typer's word for mistakes in what was typed
        if show is None:
            raise
        show()
        sys.exit(getattr(error, "exit_code", 2))


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Handles the options of `pillion` itself, before any command."""
    if version:
        from pillion import __version__

        print(__version__)
        raise typer.Exit
