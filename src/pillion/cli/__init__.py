# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command gathers what it needs, calls the Python API, and shows the answer.

This file imports little: whoever presses Ctrl-C while the rest is imported gets one line, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pillion.cli.ends import ending_well

if TYPE_CHECKING:
    from pillion.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Runs the command line; what users can act on ends in one message and exit code 2."""
    with ending_well():
        from pillion.cli.commands import run_command_line

        run_command_line()


def __getattr__(name: str) -> Any:
    """The application, for whoever wants to look at its commands."""
    if name == "app":
        from pillion.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
