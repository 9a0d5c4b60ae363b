# SPDX-License-Identifier: Apache-2.0
"""What a processor takes: a list of rules, each of which gives a verdict with the wanted and the found value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pillion.ir.op import Op
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
        try:
            got, ok = self.look(op)
        except ValueError as error:  # a scale is asked of a tensor that has none
            got, ok = error, False
        return Verdict(f"{op.kind}.{self.name}", ok, self.wants, str(got))


@dataclass(frozen=True)
class Device:
    """A processor: the ops that it has, under which rules, and what they cost there."""

    name: str
    summary: str
    ops: frozenset[type[Op]]
    rules: tuple[Rule, ...]
    estimate: Callable[[Op], int]
    """Cycles of one op (an estimate)."""
    dispatch_cycles: int = 0
    """What it takes to start a segment (an estimate)."""
    wishes: Wishes = field(default_factory=Wishes)
    """What it asks of the quantizer."""

    @cached_property
    def _by_op(self) -> dict[type[Op], list[Rule]]:
        table: dict[type[Op], list[Rule]] = {}
        for rule in self.rules:
            table.setdefault(rule.op, []).append(rule)
        return table

    def rules_of(self, op: type[Op]) -> list[Rule]:
        return self._by_op.get(op, [])

    def judge(self, op: Op) -> tuple[Verdict, ...]:
        """Every rule judged, not only up to the first that fails. An op that the device does not have is refused."""
        has = type(op) in self.ops
        known = Verdict(f"{op.kind}.supported", has, f"an op of {self.name}", op.kind)
        if not has:
            return (known,)
        return (known, *(rule.judge(op) for rule in self.rules_of(type(op))))


def rules_for(ops: Iterable[type[Op]], name: str, wants: str, look: Look, source: str) -> list[Rule]:
    """One rule for several kinds of ops."""
    return [Rule(op, name, wants, look, source) for op in ops]
