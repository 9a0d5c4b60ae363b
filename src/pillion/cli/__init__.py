# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command gathers what it needs, calls the Python API, and shows the answer."""

# isort: off  # the help shows the commands in this order
from pillion.cli import compile  # noqa: F401
from pillion.cli import run  # noqa: F401
from pillion.cli import explain  # noqa: F401
from pillion.cli import lists  # noqa: F401

# isort: on
from pillion.cli.app import app, main

__all__ = ["app", "main"]
