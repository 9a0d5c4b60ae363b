# SPDX-License-Identifier: Apache-2.0
"""Where activations lie: one arena, planned at compile time."""

from __future__ import annotations

from pillion.memory.plan import MemoryPlan, Needs, OpMemory, RegionMemory, Resident, plan_memory
from pillion.memory.schedule import ALIGNMENT, Event, Firing, Move, Schedule, is_alias, schedule

__all__ = [
    "ALIGNMENT",
    "Event",
    "Firing",
    "MemoryPlan",
    "Move",
    "Needs",
    "OpMemory",
    "RegionMemory",
    "Resident",
    "Schedule",
    "is_alias",
    "plan_memory",
    "schedule",
]
