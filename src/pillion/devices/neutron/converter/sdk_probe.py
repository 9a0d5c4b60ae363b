# SPDX-License-Identifier: Apache-2.0
"""Detects NXP's SDK, without an import of it, because that may end the process."""

from __future__ import annotations

import importlib.util
import json
from importlib import metadata
from pathlib import Path

from pillion.devices.neutron.converter.sdk_worker import DISTRIBUTION

SDK: str = json.loads(Path(__file__).parents[1].joinpath("sdk.json").read_text("utf-8"))["package"]
"""The package name; `pillion doctor` reads the same file."""


def sdk_available() -> bool:
    """Whether NXP's SDK is installed."""
    return importlib.util.find_spec(SDK) is not None


def installed_version() -> str | None:
    """Returns the version of the installed SDK; None without one, or if its package does not name it."""
    try:
        return metadata.version(DISTRIBUTION) if sdk_available() else None
    except metadata.PackageNotFoundError:
        return None
