# SPDX-License-Identifier: Apache-2.0
"""The application that the commands belong to, and what holds for all of them."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Annotated

import typer

from pillion.errors import PillionError

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


def main() -> None:
    """Runs the command line; what users can act on ends in one message and exit code 2."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # else the last collection looks through all of torch: a second and a half
    try:
        app(prog_name="pillion")
    except PillionError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from pillion import __version__

        print(__version__)
        raise typer.Exit
