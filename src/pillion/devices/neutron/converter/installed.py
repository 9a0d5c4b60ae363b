# SPDX-License-Identifier: Apache-2.0
"""Whether NXP's SDK is there."""

from __future__ import annotations

import importlib.util

SDK = "eiq_neutron_sdk"


def sdk_available() -> bool:
    """Whether NXP's SDK is installed. It is not imported: that could end the process."""
    return importlib.util.find_spec(SDK) is not None
