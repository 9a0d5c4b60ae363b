# SPDX-License-Identifier: Apache-2.0
"""Public names of executors, for other packages. The code is in `run/`."""

from __future__ import annotations

from pillion.boards.project_layout import host_folder
from pillion.run.executor import RunResult
from pillion.run.executor_list import run_project

__all__ = ["RunResult", "host_folder", "run_project"]
