# SPDX-License-Identifier: Apache-2.0
"""Where activations lie: one arena, planned at compile time."""

from __future__ import annotations

from pillion.memory.plan import ALIGNMENT, MemoryPlan, OpMemory, Resident, plan_memory

__all__ = ["ALIGNMENT", "MemoryPlan", "OpMemory", "Resident", "plan_memory"]
