# SPDX-License-Identifier: Apache-2.0
"""All that the rest of Pillion knows of an NPU: the fields of `Device`. A folder beside this file makes one.

What it takes is a list of rules, each of which gives a verdict with the wanted and the found value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pillion.devices.band import Band
from pillion.devices.computer import Driver
from pillion.devices.payloads import Executable, Payloads, SegmentCost, SegmentFile, marked
from pillion.devices.retyped import Change
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, beyond_scales
from pillion.ir.verdict import Verdict
from pillion.ir.wishes import Wishes

Look = Callable[[Any], tuple[object, bool]]
"""What is there, and whether that is fine. The op is of the kind that the rule is for."""


@dataclass(frozen=True)
class Rule:
    """One condition on one kind of op. `wants` is also the cell of the docs table, `source` where the limit comes from."""

    op: type[Op]
    name: str
    wants: str
    look: Look
    source: str

    def judge(self, op: Op) -> Verdict:
        """Holds an op against the rule. Where a scale is asked of a tensor that has none, the rule is broken."""
        try:
            got, ok = self.look(op)
        except ValueError as error:  # a scale is asked of a tensor that has none
            got, ok = error, False
        return Verdict(f"{op.kind}.{self.name}", ok, self.wants, str(got))


def no_changes(rule: str, op: Op) -> Iterator[Change]:
    """Answers for a device that knows of no changes: what it refuses runs on the CPU, and `explain` has no advice."""
    return iter(())


def drops_nothing(op: Op) -> bool:
    """Answers for a device whose converter computes whatever it is given: no op is dropped."""
    return False


def without_converter(files: Sequence[SegmentFile], chip: str) -> Payloads:
    """Makes the payloads for a device that has no converter."""
    return marked(files)


UNCERTAINTY = Band(0.5, 8.0)
"""Of estimates that no public measurement confirms. NXP's own converter predicted 353,039 cycles for a network that was measured at
about 495,000 on an MCX N947: 1.4 times as many."""


@dataclass(frozen=True)
class Device:
    """An NPU: the ops that it has, under which rules, and what they cost there; how a graph is made ready for it, and what
    becomes of its segments."""

    name: str
    summary: str
    ops: frozenset[type[Op]]
    """The ops that it has."""
    rules: tuple[Rule, ...]
    estimate: Callable[[Op], int]
    """Cycles of one op (an estimate)."""
    lacks: frozenset[type[Op]] = frozenset()
    """The ops that it does not have: each op is in one of the two sets, so that a new one is decided on."""
    flash_bytes_per_cycle: float | None = None
    """How fast it reads constants from flash, where its estimates count that: the core reads its own from the same flash."""
    dispatch_cycles: int = 0
    """What it takes to start a segment (an estimate)."""
    uncertainty: Band = UNCERTAINTY
    """What the cycles of a segment may come to, for each one that was estimated."""
    arithmetic: Arithmetic = Arithmetic.TFLITE
    """Whose bits it computes."""
    copies_weights: bool = True
    """Whether weights are copied to SRAM before it runs; else it reads them from flash itself."""
    wishes: Wishes = field(default_factory=Wishes)
    """What it asks of the quantizer."""
    rewrites: tuple[Callable[[Graph], Graph], ...] = ()
    """Passes that run before placement: they say what the NPU lacks in terms of what it has."""
    changes: Callable[[str, Op], Iterator[Change]] = no_changes
    """What might satisfy a rule, by its name, for an op that fails it: the smallest change first."""
    drops: Callable[[Op], bool] = drops_nothing
    """Whether its converter removes an op. Of these alone no segment is made."""
    delegate: str = ""
    """What ExecuTorch's runtime on the chip calls it, in `.pte` files; its name, if that is empty."""
    file_operators: tuple[tuple[str, str], ...] = ()
    """The custom operators that its converter puts into .tflite files in the place of layers, and whose code they are."""
    show: Callable[[bytes, bool], Iterator[str] | None] | None = None
    """What shows a payload as text, first whom it is for: the steps, or every command. None for what is no payload of its."""
    execute: Callable[[bytes], Executable | None] | None = None
    """What executes a payload on this computer, bit for bit; None for what is no payload of its, an error for what is not known of one."""
    driver: Callable[[], Driver] | None = None
    """What stands in for its driver on this computer, where the C of projects calls one."""
    cost: Callable[[bytes, str], SegmentCost | None] = lambda file, chip: None
    """What its converter says that a segment takes, from its TFLite file, for the chip of a name; None where it is not installed: then the
    estimates of ops are added up."""
    payloads: Callable[[Sequence[SegmentFile], str], Payloads] = without_converter
    """What it is given for the segments of a program. The second argument is what its converter calls the chip."""

    @cached_property
    def _by_op(self) -> dict[type[Op], list[Rule]]:
        table: dict[type[Op], list[Rule]] = {}
        for rule in self.rules:
            table.setdefault(rule.op, []).append(rule)
        return table

    def rules_of(self, op: type[Op]) -> list[Rule]:
        """Gives the rules for one kind of op; there are none where the NPU does not have it."""
        return self._by_op.get(op, [])

    def judge(self, op: Op) -> tuple[Verdict, ...]:
        """Judges every rule, not only up to the first that fails. An op that the device does not have is refused, and one whose
        scales are not known, or do not say what it computes: segments are TFLite."""
        has = type(op) in self.ops
        known = Verdict(f"{op.kind}.supported", has, f"an op of {self.name}", op.kind)
        if not has:
            return (known,)
        if found := beyond_scales(op):
            wanted = "scales that say all (.pte files hold multipliers: compile from PyTorch or .tflite)"
            return (known, Verdict(f"{op.kind}.scales", False, wanted, found))
        return (known, *(rule.judge(op) for rule in self.rules_of(type(op))))


def rules_for(ops: Iterable[type[Op]], name: str, wants: str, look: Look, source: str) -> list[Rule]:
    """Makes one rule for several kinds of ops."""
    return [Rule(op, name, wants, look, source) for op in ops]
