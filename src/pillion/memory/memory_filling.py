# SPDX-License-Identifier: Apache-2.0
"""Fills one memory of the chip with the units that save the most wait cycles there."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.chip_memory import ChipMemory
from pillion.memory.first_fit import PlanningEffort, place_blocks
from pillion.memory.live_blocks import LiveBlock, least_bytes, live_bytes
from pillion.memory.memory_units import MemoryUnit

CERTAIN_SHARE = 0.8
"""Up to this share of a memory, live bytes are taken to fit without placing them."""
MOST_EXCHANGES = 60
"""The number of units for which others are moved out, in each memory."""
MOST_PERTURBATIONS = 6_000
"""The number of random tries in each memory, times the number of units."""


@dataclass(frozen=True)
class MemoryFilling:
    """A memory that is being filled."""

    memory: ChipMemory
    ticks: int
    saved: Callable[[MemoryUnit], float]
    """The wait cycles that a unit saves here."""
    alive: dict[MemoryUnit, NDArray[np.int64]]
    perturbations: int
    fixed: Sequence[MemoryUnit]
    """Units that lie here in any case."""

    def fits(self, units: Sequence[MemoryUnit]) -> bool:
        """Whether the units fit next to the fixed ones: by live bytes if these decide, otherwise by placing the
        blocks."""
        units = [*self.fixed, *units]
        room = self.memory.usable_bytes - sum(unit.bytes for unit in units)
        blocks = [block for unit in units for block in unit.blocks]
        least, most = self._live_bounds(units, blocks)
        if room < 0 or least > room:
            return False
        return most + max(
            (block.overread_bytes for block in blocks), default=0
        ) <= CERTAIN_SHARE * room or self._are_placed(units)

    def _are_placed(self, units: Sequence[MemoryUnit]) -> bool:
        """Whether the units fit after placing their blocks."""
        room = self.memory.usable_bytes - sum(unit.bytes for unit in units)
        return arena_bytes([b for unit in units for b in unit.blocks], PlanningEffort.ORDERS) <= room

    def _live_bounds(self, units: Sequence[MemoryUnit], blocks: Sequence[LiveBlock]) -> tuple[int, int]:
        """Returns the most bytes live at once, if every result that may overwrite an operand does, and if none does."""
        if any(block.nested for block in blocks):
            return least_bytes(blocks, self.ticks), 1 << 60
        live = sum((self.alive[unit] for unit in units if unit.blocks), np.zeros(self.ticks, np.int64))
        most = int(live.max(initial=0))
        here = set(blocks)
        for block in blocks:
            if block.overlaid in here:
                live[max(block.first, block.overlaid.first) : min(block.last, block.overlaid.last) + 1] -= (
                    block.size
                )
        return int(live.max(initial=0)), most

    def takes(self, unit: MemoryUnit, taken: Sequence[MemoryUnit]) -> bool:
        """Whether another unit fits next to the taken ones."""
        self.alive[unit] = np.array(live_bytes(unit.blocks, self.ticks), np.int64)[: self.ticks]
        return self.fits([*taken, unit]) and self._are_placed([*self.fixed, *taken, unit])

    def fill(self, order: Iterable[MemoryUnit]) -> list[MemoryUnit]:
        """Returns the units that fit when tried in an order, each next to the earlier ones."""
        taken: list[MemoryUnit] = []
        for unit in order:
            if self.fits([*taken, unit]):
                taken.append(unit)
        while taken and not self._are_placed([*self.fixed, *taken]):
            taken.pop()
        return taken

    def exchange(self, taken: list[MemoryUnit], left: Sequence[MemoryUnit]) -> list[MemoryUnit]:
        """Returns the units after exchanges: a unit moves in if it saves more than the units that it displaces."""
        for unit in sorted(left, key=self.saved, reverse=True)[:MOST_EXCHANGES]:
            displaced = self._displaced(unit, taken)
            if displaced is None:
                continue
            others = [one for one in taken if one not in displaced]
            changed = self.fill([*others, unit, *sorted(displaced, key=self.saved, reverse=True)])
            if self.total(changed) > self.total(taken):
                taken = changed
        return taken

    def _displaced(self, unit: MemoryUnit, taken: Sequence[MemoryUnit]) -> set[MemoryUnit] | None:
        """Returns units that save little, without which another one fits; None if they save more than it."""
        rivals = [one for one in taken if one.bytes or unit.bytes or _meet(one, unit)]
        out: set[MemoryUnit] = set()
        for one in sorted(rivals, key=lambda rival: self.saved(rival) / self.cost(rival)):
            out.add(one)
            if sum(map(self.saved, out)) >= self.saved(unit):
                return None
            if self.fits([*(other for other in taken if other not in out), unit]):
                return out
        return None

    def total(self, units: Iterable[MemoryUnit]) -> float:
        """Returns the wait cycles that units save here."""
        return sum(map(self.saved, units))

    def cost(self, unit: MemoryUnit) -> float:
        """Returns the bytes that a unit occupies, each times the ticks in which it is live."""
        return float(unit.bytes * self.ticks + self.alive[unit].sum()) or 1.0

    def best(self, units: Sequence[MemoryUnit]) -> list[MemoryUnit]:
        """Returns units that fit and save much."""
        if not self.fits([]):
            return []
        orders = (
            lambda unit: (-self.saved(unit) / self.cost(unit), self.cost(unit)),
            lambda unit: (-self.saved(unit) / unit.size, self.cost(unit)),
            lambda unit: (-self.saved(unit), self.cost(unit)),
        )
        fillings = (self.fill(sorted(units, key=order)) for order in orders)
        taken = max(fillings, key=self.total)
        taken = self.exchange(taken, [unit for unit in units if unit not in taken])
        return self.perturb(taken, units) if len(taken) < len(units) else taken

    def perturb(self, taken: list[MemoryUnit], units: Sequence[MemoryUnit]) -> list[MemoryUnit]:
        """Returns the best units after several tries to move some out, and others in by a random order."""
        dice = random.Random(0)
        for _ in range(self.perturbations // len(units)):
            out = set(dice.sample(taken, min(len(taken), dice.randint(1, 3))))
            kept = [unit for unit in taken if unit not in out]
            others = [unit for unit in units if unit not in kept]
            others.sort(key=lambda unit: -self.saved(unit) / self.cost(unit) * dice.uniform(0.3, 1.0))
            changed = self.fill([*kept, *others])
            if self.total(changed) > self.total(taken):
                taken = changed
        return taken


def _meet(a: MemoryUnit, b: MemoryUnit) -> bool:
    """Whether blocks of two units are live at the same time."""
    return any(x.first <= y.last and y.first <= x.last for x in a.blocks for y in b.blocks)


def arena_bytes(blocks: Sequence[LiveBlock], effort: PlanningEffort) -> int:
    """Places blocks in an arena of their own and returns its size, including the bytes that kernels overread."""
    if not blocks:
        return 0
    size = place_blocks(blocks, 0, effort)
    return max([size, *(block.offset + block.size + block.overread_bytes for block in blocks)])
