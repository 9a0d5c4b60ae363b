# SPDX-License-Identifier: Apache-2.0
"""The Cortex-M cores and the costs of ops on them."""

from __future__ import annotations

from pillion.devices.cortex_m.cores import CORES, Core, Isa, missing_core_reason

__all__ = ["CORES", "Core", "Isa", "missing_core_reason"]
