# SPDX-License-Identifier: Apache-2.0
"""Importing this first lets `pillion` be the package beside this folder, whichever one is installed; also in child processes, by
`ENVIRONMENT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = str(ROOT / "src")
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}

sys.path.insert(0, SOURCE)
