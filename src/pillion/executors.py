# SPDX-License-Identifier: Apache-2.0
"""Names that programs of others import from here. The code is in `run/`."""

from __future__ import annotations

from pillion.boards.layout import host_folder
from pillion.run.executor import RunResult
from pillion.run.places import run_project

__all__ = ["RunResult", "host_folder", "run_project"]
