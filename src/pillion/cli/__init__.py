# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command gathers what it needs, calls the Python API, and shows the answer."""

# ruff: noqa: F401, I001  # the help shows the commands in this order
from pillion.cli import compile
from pillion.cli import train
from pillion.cli import run
from pillion.cli import verify
from pillion.cli import explain
from pillion.cli import lists
from pillion.cli.app import app, main

__all__ = ["app", "main"]
