# SPDX-License-Identifier: Apache-2.0
"""Detects NXP's SDK."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

SDK: str = json.loads(Path(__file__).parents[1].joinpath("sdk.json").read_text("utf-8"))["package"]
"""The package name; `pillion doctor` reads the same file."""


def sdk_available() -> bool:
    """Whether NXP's SDK is installed. It is not imported, because that may end the process."""
    return importlib.util.find_spec(SDK) is not None
