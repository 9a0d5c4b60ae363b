# SPDX-License-Identifier: Apache-2.0
"""A program divided among the memories of a chip: the request, the result, and the placement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pillion.chip_memory import ChipMemory
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.events import align_up, is_alias
from pillion.memory.first_fit import PlanningEffort
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.memory_choice import choose_memories
from pillion.memory.memory_filling import MOST_PERTURBATIONS, arena_bytes
from pillion.memory.memory_units import ConstantStream, MemoryUnit, Touched, units_of_blocks
from pillion.memory.op_memory import Needs, RegionMemory
from pillion.memory.state_layout import ARENA, Area, MemoryLocation
from pillion.memory.traffic import runs_of_ops, touched_bytes, touched_constants


@dataclass(frozen=True)
class MemoryRequest:
    """The memories of a chip, among which a plan divides its buffers and constants."""

    memories: tuple[ChipMemory, ...]
    """The memories for data, the fastest first."""
    constants_in: ChipMemory
    """Where constants lie that no other memory holds."""
    constants: Mapping[Op, int] = field(default_factory=dict)
    """Bytes of the constants of each op, loops' ops included."""
    state_bytes: int = 0
    """Bytes of states, counters of streams and sums included."""
    streamable: Mapping[Op, tuple[int, float]] = field(default_factory=dict)
    """Ops whose constants may be copied while the op before runs: the bytes of the buffer, and the cycles of that op."""


@dataclass(frozen=True)
class UsedMemory:
    """A memory of the chip as a program uses it. `area` is the area of its buffers."""

    memory: ChipMemory
    area: Area
    arena_bytes: int
    """Bytes of buffers: an arena of its own."""
    state_bytes: int = 0
    constant_bytes: int = 0

    @property
    def bytes(self) -> int:
        """All bytes of the memory that the program and the NPU use."""
        return self.arena_bytes + self.state_bytes + self.constant_bytes + self.memory.reserved


@dataclass(frozen=True)
class SeveralMemories:
    """How a plan divides a program among the memories of a chip."""

    used: tuple[UsedMemory, ...]
    """The fastest first. The first one holds the area of the arena."""
    constants_in: Mapping[Op, tuple[int, str]]
    """Op → number and name of the memory to which its constants are copied at start; other constants stay where they lie."""
    waits: float
    """Estimated wait cycles per run."""
    flash: ChipMemory
    """Where other constants lie."""
    streamed: Mapping[Op, MemoryLocation] = field(default_factory=dict)
    """Op → where its constants are copied in time for each run."""

    @property
    def arenas(self) -> tuple[UsedMemory, ...]:
        """The memories that hold buffers."""
        return tuple(one for one in self.used if one.arena_bytes or one.area == ARENA)


@dataclass(frozen=True)
class DividedMemory:
    """The buffers of a graph, to be divided among the memories of a request."""

    graph: Graph
    needs: Needs
    blocks: Mapping[Value, LiveBlock]
    scratch: Mapping[Op, LiveBlock]
    request: MemoryRequest
    ticks: int
    alignment: int
    spans: Mapping[Op, tuple[int, int]]
    """The first and the last tick of each op."""

    def place(
        self, effort: PlanningEffort
    ) -> tuple[SeveralMemories, dict[LiveBlock, Area], dict[Op, LiveBlock]]:
        """Places every block and returns the result, the areas of blocks outside the arena, and the buffers for constants that
        are copied in time."""
        units = [*self._buffers(), *self._states(), *self._constants()]
        memories, flash = self.request.memories, self.request.constants_in
        perturbations = MOST_PERTURBATIONS if effort is PlanningEffort.MOST else 0
        chosen = choose_memories(self.graph.name, units, memories, flash, self.ticks, perturbations)
        areas: dict[LiveBlock, Area] = {}
        used = []
        for number, memory in enumerate(memories):
            area = memory.name if number else ARENA
            here = [unit for unit in units if chosen.units.get(unit) == number]
            buffers = [stream.block for stream, home in chosen.streamed.items() if home == number]
            blocks = [*(block for unit in here for block in unit.blocks), *buffers]
            areas.update(dict.fromkeys(blocks, area) if number else {})
            size = self._in_lines(arena_bytes(blocks, effort))
            constants = sum(
                self.request.constants[unit.constants_of] for unit in here if unit.constants_of is not None
            )
            states = self.request.state_bytes if any(unit.is_states for unit in here) else 0
            used.append(UsedMemory(memory, area, size, states, constants))
        constants_in = {
            unit.constants_of: (number, memories[number].name)
            for unit, number in chosen.units.items()
            if unit.constants_of is not None
        }
        streamed = {
            one.op: MemoryLocation(one.block.offset, areas.get(one.block, ARENA)) for one in chosen.streamed
        }
        buffers_of = {one.op: one.block for one in chosen.streamed}
        return SeveralMemories(tuple(used), constants_in, chosen.waits, flash, streamed), areas, buffers_of

    def _buffers(self) -> list[MemoryUnit]:
        """Returns the units of activations and scratch."""
        blocks = list(dict.fromkeys((*self.blocks.values(), *self.scratch.values())))
        touched = touched_bytes(self.graph, self.needs, self.blocks, self.scratch)
        units = units_of_blocks(blocks, touched)
        first = {self.scratch[op] for op in self.scratch if isinstance(self.needs.get(op), RegionMemory)}
        works = {self.scratch[op] for op in self.scratch if op in self.needs and self.needs[op].workspace}
        for unit in units:
            unit.in_first = not first.isdisjoint(unit.blocks)
            unit.of_npu = not works.isdisjoint(unit.blocks)
        return units

    def _in_lines(self, size: int) -> int:
        """Returns a size as a multiple of the alignment."""
        return -(-size // self.alignment) * self.alignment

    def _states(self) -> Iterator[MemoryUnit]:
        """Yields the unit of all states, which lie together."""
        size = self.request.state_bytes
        if size:
            yield MemoryUnit(bytes=self._in_lines(size), touched=Touched(size, size, size, size))

    def _constants(self) -> Iterator[MemoryUnit]:
        """Yields a unit per op with constants."""
        runs = {run.op: run for run in runs_of_ops(self.graph, self.needs, self.blocks)}
        streams = self._streams()
        for op, size in self.request.constants.items():
            touched = touched_constants(runs[op], size)
            yield MemoryUnit(
                bytes=self._in_lines(size), touched=touched, constants_of=op, stream=streams.get(op)
            )

    def _streams(self) -> dict[Op, ConstantStream]:
        """Returns how the constants of ops may be copied while the op before runs."""
        ops = [op for op in self.graph.ops if not is_alias(op)]
        found = {}
        for before, op in zip([*ops[:1], *ops], ops, strict=False):
            if op in self.request.streamable:
                size, work = self.request.streamable[op]
                block = LiveBlock(align_up(size), self.spans[before][0], self.spans[op][1])
                found[op] = ConstantStream(op, block, work)
        return found
