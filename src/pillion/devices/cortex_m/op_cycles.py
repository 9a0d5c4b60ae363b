# SPDX-License-Identifier: Apache-2.0
"""Cycle ranges of instructions on a Cortex-M."""

from __future__ import annotations

from pillion.devices.cortex_m.classes import InstructionCounts
from pillion.devices.cortex_m.cores import Core
from pillion.devices.cortex_m.cycles import CYCLES
from pillion.devices.cortex_m.memories import MemoryAssumption
from pillion.devices.cycle_range import CycleRange, sum_of_ranges


def counted_cycles(
    core: Core, ran: InstructionCounts, memories: MemoryAssumption, hertz: float
) -> CycleRange:
    """Returns the cycle range of executed instructions: their classes, taken jumps, and memory wait
    states."""
    table = CYCLES[core.plain]
    known = sum_of_ranges(table.cycles.get(name, _SLOW) * count for name, count in ran.counts.items())
    extra = table.per_register * ran.more_registers + table.taken * ran.taken
    return known + extra + memories.cycles(ran, hertz)


_SLOW = CycleRange(1, 16)
"""The cycles of a class that the core's table lacks."""
