# SPDX-License-Identifier: Apache-2.0
"""Units that are placed in a memory of the chip as one piece, and their wait cycles there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pillion.chip_memory import LINE_BYTES, ChipMemory
from pillion.ir.op import Op
from pillion.memory.live_blocks import LiveBlock

FETCH_CYCLES = 200.0
"""The cycles of starting and awaiting a copy."""


@dataclass(frozen=True)
class Touched:
    """Bytes read and written per run: at best, with a cache before the memory, and without."""

    read: float = 0.0
    written: float = 0.0
    read_often: float = 0.0
    written_often: float = 0.0

    def __add__(self, other: Touched) -> Touched:
        return Touched(
            self.read + other.read,
            self.written + other.written,
            self.read_often + other.read_often,
            self.written_often + other.written_often,
        )


@dataclass(frozen=True, eq=False)
class ConstantStream:
    """Constants that are copied while an earlier op runs: the buffer, and the cycles that the core works meanwhile."""

    op: Op
    block: LiveBlock
    work: float

    def stall(self, flash: ChipMemory) -> float:
        """Returns the cycles that the core waits for the copy, including the calls that start and await it."""
        assert flash.copy is not None
        return max(self.block.size / LINE_BYTES * flash.copy - self.work, 0.0) + FETCH_CYCLES


@dataclass(eq=False)
class MemoryUnit:
    """Bytes that lie in one memory: blocks at fixed distances, the states, or the constants of an op."""

    blocks: tuple[LiveBlock, ...] = ()
    bytes: int = 0
    """The bytes of states or constants, which are live all the time."""
    touched: Touched = field(default_factory=Touched)
    constants_of: Op | None = None
    stream: ConstantStream | None = None
    """How the constants may be copied in time for their op."""
    buffer_of: MemoryUnit | None = None
    """The constants that are copied to this buffer in time for their op."""
    in_first: bool = False
    """Whether it must lie in the first memory."""
    of_npu: bool = False

    @property
    def size(self) -> int:
        """The bytes of its largest block, or its own."""
        return self.bytes or max(block.size for block in self.blocks)

    @property
    def is_states(self) -> bool:
        """Whether it is the states, which lie together."""
        return bool(self.bytes) and self.constants_of is None

    @property
    def may_stay_away(self) -> bool:
        """Whether it need not lie in any of the memories: constants may stay in flash."""
        return self.constants_of is not None or self.buffer_of is not None

    def waits(self, memory: ChipMemory) -> float:
        """Returns the wait cycles of a run with the unit in a memory."""
        is_cached = self.size <= memory.cache
        read = self.touched.read if is_cached else self.touched.read_often
        written = self.touched.written if is_cached else self.touched.written_often
        return (read * memory.read + written * memory.write) / LINE_BYTES


def units_of_blocks(blocks: Iterable[LiveBlock], touched: Mapping[LiveBlock, Touched]) -> list[MemoryUnit]:
    """Returns a unit per group of blocks at fixed distances."""
    groups: dict[LiveBlock, list[LiveBlock]] = {}
    for block in blocks:
        first = next(iter(block.bound), block)
        groups.setdefault(first, []).append(block)
    return [
        MemoryUnit(tuple(group), touched=sum((touched.get(block, Touched()) for block in group), Touched()))
        for group in groups.values()
    ]
