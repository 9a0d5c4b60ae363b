# SPDX-License-Identifier: Apache-2.0
"""The application that the commands belong to, and what holds for all of them."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        with _all_of_it_shown():
            app(prog_name="pillion")
    except PillionError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def _all_of_it_shown() -> Iterator[None]:
    """Flushes standard output while there is still someone to say that it could not be written."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # it is where it was closed before
                sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is not tried again at the end
        raise PillionError(
            "the answer cannot be written",
            rule="standard output takes what a command prints",
            here=f"{error.strerror}: standard output",
            help="make room where it goes to, or send it elsewhere",
        ) from None


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from pillion import __version__

        print(__version__)
        raise typer.Exit
