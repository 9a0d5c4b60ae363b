# SPDX-License-Identifier: Apache-2.0
"""The memory plan: activations in one arena, planned at compile time; states beside it."""

from __future__ import annotations

from pillion.memory.events import ALIGNMENT, Event, Feed, Firing, Move, is_alias
from pillion.memory.first_fit import Effort
from pillion.memory.op_memory import (
    HOST_POINTER_BYTES,
    Needs,
    OpMemory,
    RegionMemory,
    RepeatMemory,
    words_of_state,
)
from pillion.memory.plan import MemoryPlan, Resident, plan_memory, unsettled
from pillion.memory.scan_memory import moved, roots
from pillion.memory.schedule import Schedule, schedule
from pillion.memory.sliding_buffers import SlidingBuffer, sliding_buffers_of
from pillion.memory.state_layout import Area, Spot

__all__ = [
    "ALIGNMENT",
    "HOST_POINTER_BYTES",
    "Area",
    "Effort",
    "Event",
    "Feed",
    "Firing",
    "MemoryPlan",
    "Move",
    "Needs",
    "OpMemory",
    "RegionMemory",
    "RepeatMemory",
    "Resident",
    "Schedule",
    "SlidingBuffer",
    "Spot",
    "is_alias",
    "moved",
    "plan_memory",
    "roots",
    "schedule",
    "sliding_buffers_of",
    "unsettled",
    "words_of_state",
]
