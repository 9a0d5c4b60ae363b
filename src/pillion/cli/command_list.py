# SPDX-License-Identifier: Apache-2.0
"""Imports all commands, in the order of the help."""

# ruff: noqa: F401, I001  # that order
from pillion.cli import new
from pillion.cli import compile
from pillion.cli import kernels
from pillion.cli import package
from pillion.cli import train
from pillion.cli import run
from pillion.cli import flash
from pillion.cli import verify
from pillion.cli import evaluate
from pillion.cli import compare
from pillion.cli import explain
from pillion.cli import report, sweep
from pillion.cli import list_commands
from pillion.cli import show
from pillion.cli import doctor
from pillion.cli.application import app, run_command_line

__all__ = ["app", "run_command_line"]
