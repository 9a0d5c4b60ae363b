# SPDX-License-Identifier: Apache-2.0
"""The command line: each command collects options, calls the Python API and prints the result.

This module imports little, so that Ctrl-C during the remaining imports still ends in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pillion.cli.error_boundary import errors_as_messages

if TYPE_CHECKING:
    from pillion.cli.command_list import app

__all__ = ["app", "main"]


def main() -> None:
    """Runs the command line. An error that the user can act on ends in one message and exit code 2."""
    with errors_as_messages():
        from pillion.cli.command_list import run_command_line

        run_command_line()


def __getattr__(name: str) -> Any:
    """Loads the application on first use."""
    if name == "app":
        from pillion.cli.command_list import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
