# SPDX-License-Identifier: Apache-2.0
"""Where activations lie: one arena, planned at compile time, and what lives between runs apart from it."""

from __future__ import annotations

from pillion.memory.events import ALIGNMENT, Event, Feed, Firing, Move, is_alias
from pillion.memory.fit import Effort
from pillion.memory.homes import Area, Spot
from pillion.memory.joints import Joint, joints_of
from pillion.memory.needs import (
    HOST_POINTER_BYTES,
    Needs,
    OpMemory,
    RegionMemory,
    RepeatMemory,
    words_of_state,
)
from pillion.memory.plan import MemoryPlan, Resident, plan_memory, unsettled
from pillion.memory.repeat import moved, roots
from pillion.memory.schedule import Schedule, schedule

__all__ = [
    "ALIGNMENT",
    "HOST_POINTER_BYTES",
    "Area",
    "Effort",
    "Event",
    "Feed",
    "Firing",
    "Joint",
    "MemoryPlan",
    "Move",
    "Needs",
    "OpMemory",
    "RegionMemory",
    "RepeatMemory",
    "Resident",
    "Schedule",
    "Spot",
    "is_alias",
    "joints_of",
    "moved",
    "plan_memory",
    "roots",
    "schedule",
    "unsettled",
    "words_of_state",
]
