# SPDX-License-Identifier: Apache-2.0
"""Chooses a memory of the chip for each buffer, the states, and the constants of each op: the fewest wait cycles that
the capacities allow.

Memories are filled one after another, the fastest first. Units enter in the order of the waits that they save, and
leave again for others that save more. Each choice is checked by placing the blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pillion.chip_memory import ChipMemory
from pillion.errors import PillionError
from pillion.memory.live_blocks import live_bytes
from pillion.memory.memory_filling import MOST_PERTURBATIONS, MemoryFilling
from pillion.memory.memory_units import ConstantStream, MemoryUnit


@dataclass(frozen=True)
class ChosenMemories:
    """The memory of each unit, by its number among the memories; constants that stay where they are have none."""

    units: Mapping[MemoryUnit, int]
    waits: float
    streamed: Mapping[ConstantStream, int] = field(default_factory=dict)
    """Constants that are copied in time, each with the memory of their buffer."""


@dataclass(frozen=True)
class _Chooser:
    """The memories, the fastest first, and the units to be placed."""

    name: str
    units: Sequence[MemoryUnit]
    memories: Sequence[ChipMemory]
    flash: ChipMemory
    ticks: int
    perturbations: int

    def choose(self, *, streams_first: bool) -> ChosenMemories:
        """Returns a choice. Constants may be copied in time for their op: with `streams_first`, their buffers compete
        for memory, otherwise the complete constants do; the rest uses the remaining memory."""
        chosen: dict[MemoryUnit, int] = {}
        left = [unit for unit in self.units if unit.constants_of is None]
        constants = [unit for unit in self.units if unit.constants_of is not None]
        buffers = [
            _buffer_of(unit) for unit in constants if unit.stream is not None and self.flash.copy is not None
        ]
        kept = [unit for unit in constants if unit.stream is None] if streams_first else constants
        first, later = (buffers, constants) if streams_first else (constants, buffers)
        left += [*(kept if streams_first else []), *first]
        filled: list[tuple[MemoryFilling, list[MemoryUnit]]] = []
        for number in range(len(self.memories)):
            filling, taken = self._fill(number, [unit for unit in left if unit not in chosen])
            chosen.update(dict.fromkeys((*filling.fixed, *taken), number))
            filled.append((filling, taken))
        missing = [unit for unit in left if unit not in chosen and not unit.may_stay_away]
        if missing:
            raise _does_not_fit_error(self.name, missing, self.memories)
        self._use_what_is_left(later, filled, chosen)
        return self._result(chosen, constants)

    def _fill(self, number: int, units: Sequence[MemoryUnit]) -> tuple[MemoryFilling, list[MemoryUnit]]:
        """Returns a memory with the units that must lie there, and the best others."""
        memory, behind = self.memories[number], self.memories[number + 1 :]

        def saved(unit: MemoryUnit) -> float:
            return self._waits_elsewhere(unit, memory, behind) - self._waits(unit, memory)

        able = [unit for unit in units if _may_lie_in(unit, memory, number)]
        fixed = [unit for unit in able if unit.in_first or _has_no_other(unit, behind)]
        others = [unit for unit in able if unit not in fixed and (not unit.may_stay_away or saved(unit) > 0)]
        alive = {unit: self._live(unit) for unit in able}
        filling = MemoryFilling(memory, self.ticks, saved, alive, self.perturbations, fixed)
        if not filling.fits([]):
            order = sorted(fixed, key=lambda unit: (not unit.in_first, -unit.size))
            filling = replace(filling, fixed=replace(filling, fixed=[]).fill(order))
        return filling, filling.best(others)

    def _use_what_is_left(
        self,
        units: Sequence[MemoryUnit],
        filled: Sequence[tuple[MemoryFilling, list[MemoryUnit]]],
        chosen: dict[MemoryUnit, int],
    ) -> None:
        """Adds units for whose ops nothing was chosen, where they fit and save waits."""
        done = {_subject(unit) for unit in chosen}
        for unit in sorted(units, key=lambda one: -_subject(one).waits(self.flash)):
            for number, (filling, taken) in enumerate(filled):
                if _subject(unit) in done or filling.saved(unit) <= 0:
                    continue
                filling.alive[unit] = self._live(unit)
                if filling.takes(unit, taken):
                    taken.append(unit)
                    chosen[unit] = number
                    done.add(_subject(unit))

    def _waits(self, unit: MemoryUnit, memory: ChipMemory) -> float:
        """Returns the wait cycles of a unit in a memory; for a buffer, including those for the copy to it."""
        of = unit.buffer_of
        if of is None:
            return unit.waits(memory)
        assert of.stream is not None
        return of.waits(memory) + of.stream.stall(self.flash)

    def _waits_elsewhere(self, unit: MemoryUnit, memory: ChipMemory, behind: Sequence[ChipMemory]) -> float:
        """Returns the fewest wait cycles of a unit that does not lie in a memory."""
        if unit.may_stay_away:
            return _subject(unit).waits(self.flash)
        return min(unit.waits(other) for other in behind or (memory,))

    def _live(self, unit: MemoryUnit) -> NDArray[np.int64]:
        return np.array(live_bytes(unit.blocks, self.ticks), np.int64)[: self.ticks]

    def _result(self, chosen: Mapping[MemoryUnit, int], constants: Sequence[MemoryUnit]) -> ChosenMemories:
        waits = sum(self._waits(unit, self.memories[number]) for unit, number in chosen.items())
        done = {_subject(unit) for unit in chosen}
        waits += sum(unit.waits(self.flash) for unit in constants if unit not in done)
        streams = {
            unit.buffer_of.stream: number
            for unit, number in chosen.items()
            if unit.buffer_of is not None and unit.buffer_of.stream is not None
        }
        units = {unit: number for unit, number in chosen.items() if unit.buffer_of is None}
        return ChosenMemories(units, waits, streams)


def choose_memories(
    name: str,
    units: Sequence[MemoryUnit],
    memories: Sequence[ChipMemory],
    flash: ChipMemory,
    ticks: int,
    perturbations: int = MOST_PERTURBATIONS,
) -> ChosenMemories:
    """Returns the memory of each unit. `memories` are sorted, the fastest first; constants are in `flash` otherwise.
    `perturbations` are random tries times units. Raises if the units do not fit."""
    chooser = _Chooser(name, units, memories, flash, ticks + 1, perturbations)
    ways = (False, True) if flash.copy is not None else (False,)
    return min((chooser.choose(streams_first=way) for way in ways), key=lambda chosen: chosen.waits)


def _buffer_of(unit: MemoryUnit) -> MemoryUnit:
    """Returns the buffer to which constants are copied in time."""
    assert unit.stream is not None
    return MemoryUnit((unit.stream.block,), buffer_of=unit)


def _subject(unit: MemoryUnit) -> MemoryUnit:
    """Returns the constants that a buffer is for; another unit is its own subject."""
    return unit.buffer_of or unit


def _has_no_other(unit: MemoryUnit, behind: Sequence[ChipMemory]) -> bool:
    """Whether none of the memories behind may hold a unit that must lie somewhere."""
    return not unit.may_stay_away and not any(memory.npu or not unit.of_npu for memory in behind)


def _may_lie_in(unit: MemoryUnit, memory: ChipMemory, number: int) -> bool:
    return (number == 0 or not unit.in_first) and (memory.npu or not unit.of_npu)


def _does_not_fit_error(
    name: str, missing: Sequence[MemoryUnit], memories: Sequence[ChipMemory]
) -> PillionError:
    largest = max(missing, key=lambda unit: unit.size)
    sizes = ", ".join(f"{memory.name} {memory.bytes:,}" for memory in memories)
    return PillionError(
        f"`{name}` does not fit into the memories of the chip",
        rule="each tensor, with those that are live at the same time, fits into one of the memories",
        here=f"{sizes} bytes; no room for {len(missing)} buffers, the largest of {largest.size:,} bytes",
        help="a larger memory, --io-dtype int8, --io-layout nhwc or a smaller input",
    )
