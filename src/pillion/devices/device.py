# SPDX-License-Identifier: Apache-2.0
"""The interface between an NPU and the rest of Pillion. Each folder next to this file builds a `Device`, whose rules
return a verdict with the required and the actual value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pillion.compile_options import NpuOptions
from pillion.devices.cycle_range import NOTHING, CycleRange
from pillion.devices.host_driver import Driver
from pillion.devices.payloads import (
    Executable,
    PayloadMemory,
    Payloads,
    SegmentCost,
    SegmentFile,
    marked_tflite_payloads,
)
from pillion.devices.retyped import Fixit
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.verdict import Verdict
from pillion.ops import Linear

Found = tuple[object, bool]
"""The value that an op has, and whether it satisfies a rule."""
Predicate = Callable[[Any], Found]
"""Examines an op of the rule's kind."""


@dataclass(frozen=True)
class Limit:
    """A requirement of rules: as text, also shown in the docs table, and as the predicate that checks it."""

    wants: str
    predicate: Predicate


def limit(wants: str) -> Callable[[Predicate], Limit]:
    """Turns a predicate into a limit with this requirement."""
    return lambda predicate: Limit(wants, predicate)


@dataclass(frozen=True)
class NpuRule:
    """A condition on one kind of op. `wants` is the requirement as text, also shown in the docs table;
    `source` says where the limit comes from."""

    op: type[Op]
    name: str
    wants: str
    predicate: Predicate
    source: str

    def judge(self, op: Op) -> Verdict:
        """Returns the verdict on an op. A tensor without the scale that the rule reads fails the rule."""
        try:
            got, ok = self.predicate(op)
        except ValueError as error:  # the tensor has no scale
            got, ok = error, False
        return Verdict(f"{op.kind}.{self.name}", ok, self.wants, str(got))


UNCERTAINTY = CycleRange(0.5, 8.0)
"""The factor range of estimates that no public measurement confirms."""


@dataclass(frozen=True)
class Device:
    """An NPU: its ops, their rules and costs, the passes that prepare a graph for it, and the conversion of
    segments to payloads."""

    name: str
    summary: str
    ops: frozenset[type[Op]]
    """The supported kinds of ops; all others stay on the core."""
    rules: tuple[NpuRule, ...]
    estimate: Callable[[Op], int]
    """Returns the estimated cycles of one op."""
    flash_bytes_per_cycle: float | None = None
    """The bandwidth of reading constants from flash, if the estimates include it. The core shares this
    flash."""
    dispatch_cycles: int = 0
    """The estimated cycles to start a segment."""
    uncertainty: CycleRange = UNCERTAINTY
    """The factor range around a segment's estimated cycles."""
    kernel_start: CycleRange = NOTHING
    """The cycles to start the kernel of an op, which times include. Placement leaves them out."""
    arithmetic: Arithmetic = Arithmetic.TFLITE
    """The arithmetic that the NPU computes in."""
    has_workspace: bool = False
    """Whether operands and results lie in the NPU's workspace. Others are copied: see `_copied_bytes` in
    partition.py."""
    copies_weights: bool = True
    """Whether weights are copied to SRAM before a run; otherwise the NPU reads them from flash."""
    constraints: QuantizationConstraints = field(default_factory=QuantizationConstraints)
    """The constraints on quantization."""
    rewrites: tuple[Callable[[Graph], Graph], ...] = ()
    """Passes that run before partitioning and replace unsupported patterns by supported ones."""
    fixits: Callable[[str, Op], Iterator[Fixit]] = lambda rule, op: iter(())
    """Yields fix-its for an op that fails the rule of this name, smallest change first."""
    removes: Callable[[Op], bool] = lambda op: False
    """Whether the converter removes an op. A segment needs at least one op that it keeps."""
    delegate: str = ""
    """The delegate's name in `.pte` files; empty: the device's name."""
    file_operators: tuple[tuple[str, str], ...] = ()
    """Pairs of a custom operator that the converter writes into .tflite files, and the vendor of its code."""
    show: Callable[[bytes, bool], Iterator[str] | None] | None = None
    """Returns a payload as lines of text: first the NPU, then its steps or, if the flag is set, every
    command. Returns None for a foreign payload."""
    execute: Callable[[bytes], Executable | None] | None = None
    """Returns an executable for a payload that runs bit-exactly on this computer, or None for a foreign
    payload. Raises if the payload contains something unknown."""
    memory_of: Callable[[bytes], PayloadMemory | None] = lambda payload: None
    """Returns the RAM that a payload asks for, or None for a foreign payload."""
    driver: Callable[[], Driver] | None = None
    """Returns a substitute for the NPU's driver on this computer, for C projects that call the driver."""
    configure: Callable[[NpuOptions], Device | None] | None = None
    """Returns the device with its compiler set up by options; installed versions decide options at their defaults.
    None if nothing changes. Raises on values that the compiler does not know."""
    options: frozenset[str] = frozenset()
    """The fields of `NpuOptions` that `configure` takes."""
    alternatives: Callable[[NpuOptions], tuple[NpuOptions, ...]] = lambda options: ()
    """Returns the options among which `auto` chooses the fastest that fits; none if nothing is `auto`."""
    cost: Callable[[bytes, str], SegmentCost | None] = lambda file, chip: None
    """Returns the converter's estimate for a segment's TFLite file on a chip, or None if the converter is not
    installed; the estimates of the ops are then summed."""
    payloads: Callable[[Sequence[SegmentFile], str], Payloads] = lambda files, chip: marked_tflite_payloads(
        files
    )
    """Returns the payloads of a program's segments, by default marked TFLite. The second argument is the converter's
    name for the chip."""

    @cached_property
    def _by_op(self) -> dict[type[Op], list[NpuRule]]:
        table: dict[type[Op], list[NpuRule]] = {}
        for rule in self.rules:
            table.setdefault(rule.op, []).append(rule)
        return table

    def cycle_range(self, estimates: Sequence[int]) -> CycleRange:
        """Returns the cycles of ops with these estimates. An op of no cycles has no kernel."""
        return self.uncertainty * sum(estimates) + self.kernel_start * sum(map(bool, estimates))

    def rules_of(self, op: type[Op]) -> list[NpuRule]:
        """Returns the rules for one kind of op; empty if the NPU does not support it."""
        return self._by_op.get(op, [])

    def judge(self, op: Op) -> tuple[Verdict, ...]:
        """Returns the verdicts of all rules, not only up to the first failure. Unsupported ops are
        refused, and so are ops whose scales are unknown or do not define the arithmetic, because segments
        are TFLite."""
        has = type(op) in self.ops
        known = Verdict(f"{op.kind}.supported", has, f"an op that {self.name} supports", op.kind)
        if not has:
            return (known,)
        if reason := why_multipliers_explicit(op):
            requirement = "scales that define the arithmetic (a .pte file holds multipliers, not all of which scales give: compile from PyTorch or .tflite)"
            return (known, Verdict(f"{op.kind}.scales", False, requirement, reason))
        if isinstance(op, Linear) and op.explicit and self.arithmetic is Arithmetic.TFLITE:
            requirement = (
                "sums that are rounded once (those of .pte files with multipliers are rounded twice)"
            )
            return (known, Verdict(f"{op.kind}.rounding", False, requirement, "multipliers"))
        return (known, *(rule.judge(op) for rule in self.rules_of(type(op))))


RuleRow = tuple[type[Op] | Iterable[type[Op]], str, Limit, str]
"""A row of a device's table: one or several kinds of ops, the rule's name, its limit, and where that comes from."""


def rules_from(rows: Iterable[RuleRow]) -> tuple[NpuRule, ...]:
    """Returns the rules of a table, one per op and row."""
    return tuple(
        NpuRule(op, name, limit.wants, limit.predicate, source)
        for kinds, name, limit, source in rows
        for op in ((kinds,) if isinstance(kinds, type) else kinds)
    )
