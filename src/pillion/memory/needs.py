# SPDX-License-Identifier: Apache-2.0
"""What ops need of memory beside their operands and results, as their kernels say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.op import Op
from pillion.ir.rows import ROWS
from pillion.ir.types import Value
from pillion.memory.schedule import Schedule


@dataclass(frozen=True)
class OpMemory:
    """The memory that the chosen kernel of an op needs beside its operands and results."""

    scratch_bytes: int = 0
    overread_bytes: int = 0
    in_place: tuple[Value, ...] = ()


@dataclass(frozen=True)
class RegionMemory:
    """The memory that a region needs beside its operands and results: buffers of some rows, and its ops' scratch."""

    schedule: Schedule
    ops: tuple[OpMemory, ...]
    """For each op of the body."""

    @property
    def state_bytes(self) -> int:
        """The bytes that say how far a region is that is fed: they are needed from the beginning to its end."""
        fed = self.schedule.fed
        return 4 * words_of_state(fed.shape[0] * fed.shape[ROWS]) if fed is not None else 0

    @property
    def overread_bytes(self) -> int:
        """How far behind the end of an operand of the region some kernel may read."""
        return max((op.overread_bytes for op in self.ops), default=0)

    @property
    def in_place(self) -> tuple[Value, ...]:
        """None: a region's result is begun while its operands are still read."""
        return ()


def words_of_state(rows: int) -> int:
    """Gives how many words say how far a region is that is fed so many rows: a function to call (two words on computers), where it goes
    on, the rows of this time, those that are missing, and the counts of loops, each of which runs twice or more."""
    return 5 + rows.bit_length()


Needs = Mapping[Op, OpMemory | RegionMemory]
"""What each op of a graph needs."""
