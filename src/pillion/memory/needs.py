# SPDX-License-Identifier: Apache-2.0
"""What ops need of memory beside their operands and results, as their kernels say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.op import Op
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
    def overread_bytes(self) -> int:
        """How far behind the end of an operand of the region some kernel may read."""
        return max((op.overread_bytes for op in self.ops), default=0)

    @property
    def in_place(self) -> tuple[Value, ...]:
        """None: a region's result is begun while its operands are still read."""
        return ()


Needs = Mapping[Op, OpMemory | RegionMemory]
"""What each op of a graph needs."""
