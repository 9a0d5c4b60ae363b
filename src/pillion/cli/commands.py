# SPDX-License-Identifier: Apache-2.0
"""All commands, in the order in which the help shows them."""

# ruff: noqa: F401, I001  # that order
from pillion.cli import new
from pillion.cli import compile
from pillion.cli import train
from pillion.cli import run
from pillion.cli import verify
from pillion.cli import evaluate
from pillion.cli import compare
from pillion.cli import explain
from pillion.cli import page, sweep
from pillion.cli import lists
from pillion.cli import show
from pillion.cli import doctor
from pillion.cli.application import app, run_command_line

__all__ = ["app", "run_command_line"]
