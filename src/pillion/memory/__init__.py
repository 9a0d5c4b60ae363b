# SPDX-License-Identifier: Apache-2.0
"""The memory plan: activations in one arena, planned at compile time, and states apart from it."""

from __future__ import annotations

from pillion.memory.divided_memory import MemoryRequest, SeveralMemories, UsedMemory
from pillion.memory.events import ALIGNMENT, Event, InnerOpRun, RowFeed, RowMove, is_alias, storage_roots
from pillion.memory.first_fit import PlanningEffort
from pillion.memory.op_memory import (
    HOST_POINTER_BYTES,
    Needs,
    OpMemory,
    RegionMemory,
    RepeatMemory,
    region_state_words,
)
from pillion.memory.plan import ArenaResident, MemoryPlan, plan_memory, states_to_copy
from pillion.memory.scan_memory import carried_values_to_copy
from pillion.memory.schedule import Schedule, schedule
from pillion.memory.sliding_buffers import SlidingBuffer, sliding_buffers_of
from pillion.memory.state_layout import ARENA, STATE, Area, MemoryLocation

__all__ = [
    "ALIGNMENT",
    "ARENA",
    "HOST_POINTER_BYTES",
    "STATE",
    "Area",
    "ArenaResident",
    "Event",
    "InnerOpRun",
    "MemoryLocation",
    "MemoryPlan",
    "MemoryRequest",
    "Needs",
    "OpMemory",
    "PlanningEffort",
    "RegionMemory",
    "RepeatMemory",
    "RowFeed",
    "RowMove",
    "Schedule",
    "SeveralMemories",
    "SlidingBuffer",
    "UsedMemory",
    "carried_values_to_copy",
    "is_alias",
    "plan_memory",
    "region_state_words",
    "schedule",
    "sliding_buffers_of",
    "states_to_copy",
    "storage_roots",
]
