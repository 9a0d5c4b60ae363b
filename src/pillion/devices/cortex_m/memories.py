# SPDX-License-Identifier: Apache-2.0
"""Memory wait states, as named assumptions: no tool knows where a firmware places its weights."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from pillion.chip_memory import MOST_MEMORIES, ChipMemory
from pillion.devices.cortex_m.classes import LINE_BYTES, InstructionCounts, MemoryAccesses
from pillion.devices.cycle_range import NOTHING, CycleRange, sum_of_ranges
from pillion.errors import PillionError

NANOSECOND = 1e-9


@dataclass(frozen=True)
class MemoryAssumption:
    """An assumption on the location of constants and arena, and on the wait for each of their cache lines."""

    name: str
    summary: str
    constants_line: CycleRange = NOTHING
    """Nanoseconds to wait for `fetch_bytes` of constants."""
    fetch_bytes: int = LINE_BYTES
    """The constants per fetch in bytes: a cache line, or the width of the flash."""
    cache_bytes: int = 0
    """The size of the cache for constants. An op with larger constants may fetch them repeatedly."""
    arena_line: CycleRange = NOTHING
    """Nanoseconds to wait for a line of the arena, and again to write it back."""
    jump: CycleRange = NOTHING
    """Nanoseconds to wait for the code behind a taken jump."""

    def cycles(self, ran: InstructionCounts, hertz: float) -> CycleRange:
        """Returns the wait cycles of one op: at best one wait per line, at worst one per access, and one per jump."""
        once = ran.constants.lines * LINE_BYTES / self.fetch_bytes
        is_kept = ran.constants.lines * LINE_BYTES <= self.cache_bytes
        often = once if is_kept else max(once, ran.constants.bytes / self.fetch_bytes)
        nanoseconds = CycleRange(self.constants_line.low * once, self.constants_line.high * often)
        arena = CycleRange(self.arena_line.low * ran.arena.lines, 2 * self.arena_line.high * ran.arena.lines)
        return (nanoseconds + arena + self.jump * ran.taken) * (NANOSECOND * hertz)


_ALL = (
    MemoryAssumption("tcm", "all in memory without wait states: TCM, or SRAM at the core's clock"),
    MemoryAssumption(
        "flash",
        "constants and code in flash on the chip: 10 to 40 ns of waiting for 8 bytes of constants, 0 to 40 ns for a jump, which cache or "
        "prefetch buffer may miss; arena in SRAM without wait states",
        constants_line=CycleRange(10, 40),
        fetch_bytes=8,
        jump=CycleRange(0, 40),
    ),
    MemoryAssumption(
        "cached",
        "constants in flash or MRAM (20 to 100 ns for a line of 32 bytes), arena in SRAM (10 to 50 ns), caches of 16 KB before both",
        constants_line=CycleRange(20, 100),
        cache_bytes=16_384,
        arena_line=CycleRange(10, 50),
    ),
    MemoryAssumption(
        "external",
        "constants in serial flash outside the chip (150 to 600 ns for a line of 32 bytes), a cache of 16 KB before it; arena in SRAM "
        "without wait states",
        constants_line=CycleRange(150, 600),
        cache_bytes=16_384,
    ),
)
MEMORIES: Mapping[str, MemoryAssumption] = {one.name: one for one in _ALL}
WITH_CACHES = frozenset({"cortex-m7", "cortex-m55", "cortex-m85"})
"""Cores with caches in most chips."""


@dataclass(frozen=True)
class PlacedMemories(MemoryAssumption):
    """The memories that a user named, in which a program lies by its plan."""

    placed: tuple[ChipMemory, ...] = ()
    """The memories for data, in the order of the program's arenas."""
    flash: ChipMemory | None = None

    def cycles(self, ran: InstructionCounts, hertz: float) -> CycleRange:
        """Returns the wait cycles of one op. They are cycles of the core, at any clock."""
        homes = [
            (self.placed[0], ran.arena),
            *zip(self.placed, ran.memories, strict=False),
            *zip(self.placed, ran.memories[MOST_MEMORIES:], strict=False),
        ]
        waits = sum_of_ranges(_waits(memory, accesses) for memory, accesses in homes)
        if not ran.memories:
            each = [_waits(memory, ran.arena) for memory in self.placed]
            waits = CycleRange(min(one.low for one in each), max(one.high for one in each))
        return waits + (_waits(self.flash, ran.constants) if self.flash is not None else NOTHING)


def _waits(memory: ChipMemory, accesses: MemoryAccesses) -> CycleRange:
    """Returns the wait cycles of accesses: at best once per line, at worst, without a cache that holds them, at each."""
    is_kept = accesses.lines * LINE_BYTES <= memory.cache
    often = accesses.lines if is_kept else max(accesses.lines, accesses.bytes / LINE_BYTES)
    costs = (memory.read,) if memory.is_constant else (memory.read, memory.write)
    return CycleRange(min(costs) * accesses.lines, max(costs) * often)


def placed_memories(placed: tuple[ChipMemory, ...], flash: ChipMemory | None) -> PlacedMemories:
    """Returns the memories of a program that is divided among them."""
    each = "; ".join(
        f"{one.name} {one.bytes:,} bytes, {one.read:g} cycles to read 32 bytes"
        for one in (*placed, *([flash] if flash else []))
    )
    return PlacedMemories("placed", f"as the program lies in them: {each}", placed=placed, flash=flash)


def default_memories(core: str) -> MemoryAssumption:
    """Returns the default assumption for a core."""
    return MEMORIES["cached" if core.split("+")[0] in WITH_CACHES else "flash"]


def find_memories(name: str) -> MemoryAssumption:
    """Returns the assumption of this name; raises if it does not exist."""
    if name in MEMORIES:
        return MEMORIES[name]
    close = difflib.get_close_matches(name, MEMORIES, n=1)
    raise PillionError(
        f"there is no assumption `{name}` on memories",
        rule="; ".join(f"{assumption.name}: {assumption.summary}" for assumption in _ALL),
        here=f"--memories {name}",
        help=f"did you mean `{close[0]}`?" if close else "one of these names, or leave it out",
    )
