# SPDX-License-Identifier: Apache-2.0
"""The cycles of ops on a Cortex-M: from the instructions that ran in an emulator, or from their multiplications alone."""

from __future__ import annotations

from pillion.devices.band import NOTHING, Band, total
from pillion.devices.cortex_m.classes import Class, Executed
from pillion.devices.cortex_m.cores import Core
from pillion.devices.cortex_m.cycles import CYCLES
from pillion.devices.cortex_m.estimate import estimate
from pillion.devices.cortex_m.memories import Memories
from pillion.ir.op import Op

UNCOUNTED = Band(0.4, 3.0)
"""What may become of an estimate from multiplications, of which nothing was run: tests hold it against counted programs."""


def counted_cycles(core: Core, ran: Executed, memories: Memories, hertz: float) -> Band:
    """Estimates the cycles of what ran: each instruction by its class, jumps, and what memories add."""
    table = CYCLES[core.plain]
    known = total(table.cycles.get(name, _SLOW) * count for name, count in ran.counts.items())
    extra = table.per_register * ran.more_registers + table.taken * ran.taken
    return known + extra + memories.cycles(ran, hertz)


_SLOW = Band(1, 16)
"""Instructions that a core does not have are not counted on it; a class that a table forgets counts as this."""


def uncounted_cycles(core: Core, op: Op) -> Band:
    """Estimates the cycles of an op that nobody ran."""
    cycles = estimate(op, core.isa)
    return Band(UNCOUNTED.low * cycles, UNCOUNTED.high * cycles) if cycles else NOTHING


__all__ = ["Class", "counted_cycles", "uncounted_cycles"]
