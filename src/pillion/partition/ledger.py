# SPDX-License-Identifier: Apache-2.0
"""The record of partitioning: for each op its unit, the deciding rule, and the change that would flip the
decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pillion.ir.op import Op
from pillion.ir.verdict import Verdict
from pillion.ops import Segment

PREFERRED = "user.prefer_npu"
"""The rule for a segment that runs on the NPU by the user's preference."""
NO_NPU = "target.npu"
"""The rule for all ops of a chip without an NPU."""


class ProcessingUnit(Enum):
    """The processor that runs an op."""

    NPU = "npu"
    CPU = "cpu"


@dataclass(frozen=True)
class LedgerEntry:
    """One op of the program, its unit, and the reason."""

    op: Op
    unit: ProcessingUnit
    segment: int | None
    deciding: Verdict
    verdicts: tuple[Verdict, ...]
    """The verdicts of all rules."""
    flip: str
    """The smallest change that would move the op to the other unit; empty if none is known."""
    crossing_bytes: int
    """Bytes of operands that enter the segment at this op and of results that leave it, each counted once."""
    npu_cycles: int
    cpu_cycles: int
    """Estimates, not measurements."""
    cycles: float = 0.0
    """Its part of the program's estimated cycles; 0 on chips without an NPU."""

    @property
    def because(self) -> str:
        """The reason in a few words."""
        if self.unit is ProcessingUnit.NPU:
            why = "the NPU is preferred" if self.deciding.rule == PREFERRED else "is faster there"
            link = "," if self.deciding.rule == PREFERRED else ""
            return f"{len(self.verdicts) - 1} rules hold, and segment {self.segment}{link} {why}"
        if self.deciding.rule == NO_NPU:
            return "the chip has no NPU"
        return f"{self.deciding.rule}: wanted {self.deciding.wanted}, got {self.deciding.got}"

    def as_row(self) -> dict[str, Any]:
        """Returns the entry as plain data."""
        return {
            "op": self.op.name,
            "kind": self.op.kind,
            "unit": self.unit.value,
            "segment": self.segment,
            "because": self.because,
            "rule": self.deciding.rule,
            "wanted": self.deciding.wanted,
            "got": self.deciding.got,
            "flip": self.flip,
            "crossing_bytes": self.crossing_bytes,
            "npu_cycles_estimate": self.npu_cycles,
            "cpu_cycles_estimate": self.cpu_cycles,
            "source": self.op.source,
        }


@dataclass(frozen=True)
class LoopEntry:
    """A loop that is unrolled for the NPU, and the reason."""

    name: str
    count: int
    deciding: Verdict

    @property
    def because(self) -> str:
        """The reason in a few words."""
        why = self.deciding
        return (
            f"{self.count:,} copies of its steps for the NPU, {why.rule}: wanted {why.wanted}, got {why.got}"
        )


@dataclass(frozen=True)
class Ledger:
    """The record of partitioning: one entry per op, in execution order."""

    entries: tuple[LedgerEntry, ...]
    copied: tuple[LoopEntry, ...] = ()
    """The unrolled loops."""

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    def in_order_of(self, ops: Sequence[Op]) -> Ledger:
        """Returns the record in another execution order of the same ops, with segments numbered in this order."""
        inside = ((op.body.ops if isinstance(op, Segment) else (op,)) for op in ops)
        order = {op: index for index, some in enumerate(inside) for op in some}
        entries = sorted(self.entries, key=lambda entry: order.get(entry.op, len(order)))
        numbers: dict[int | None, int] = {}
        for entry in entries:
            if entry.segment is not None:
                numbers.setdefault(entry.segment, len(numbers))
        return Ledger(
            tuple(replace(entry, segment=numbers.get(entry.segment)) for entry in entries), self.copied
        )

    @property
    def on_npu(self) -> list[LedgerEntry]:
        """The entries of all ops that the NPU runs."""
        return [e for e in self.entries if e.unit is ProcessingUnit.NPU]

    @property
    def segments(self) -> dict[int, list[LedgerEntry]]:
        """The entries of each segment."""
        by_segment: dict[int, list[LedgerEntry]] = {}
        for entry in self.entries:
            if entry.segment is not None:
                by_segment.setdefault(entry.segment, []).append(entry)
        return by_segment

    @property
    def crossing_bytes(self) -> int:
        """The bytes between CPU and NPU per run."""
        return sum(e.crossing_bytes for e in self.entries)
