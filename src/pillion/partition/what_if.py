# SPDX-License-Identifier: Apache-2.0
"""Finds the smallest change to an op that would let the NPU run it, by judging changed ops."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.devices.device import Device
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict, all_ok, failed_rules

KEPT = "user.keep_on_cpu"


@dataclass(frozen=True)
class WhatIf:
    """A change that moves an op to the NPU: its description, and the changed op."""

    words: str
    op: Op


def smallest_change(op: Op, npu: Device, verdicts: tuple[Verdict, ...]) -> str:
    """Returns the description of the change; empty if none is known."""
    flip = find_what_if(op, npu, verdicts)
    return flip.words if flip else ""


def find_what_if(op: Op, npu: Device, verdicts: tuple[Verdict, ...]) -> WhatIf | None:
    """Returns a change that satisfies every failing rule, or None."""
    failed = failed_rules(verdicts)
    words = ["leave out --keep-on-cpu"] if any(v.rule == KEPT for v in failed) else []
    changed = op
    for verdict in failed:
        step = _change_for_rule(changed, npu, verdict.rule)
        if step:
            words.append(step.words)
            changed = step.op
    return WhatIf(" and ".join(words), changed) if words and all_ok(npu.judge(changed)) else None


def _change_for_rule(op: Op, npu: Device, rule: str) -> WhatIf | None:
    """Returns the first change that satisfies one rule and breaks no other."""
    broken = _failing_rules(op, npu)
    if rule not in broken:
        return None
    for words, changed in npu.fixits(rule.split(".")[1], op):
        if _failing_rules(changed, npu) < broken:
            return WhatIf(words, changed)
    return None


def _failing_rules(op: Op, npu: Device) -> set[str]:
    return {verdict.rule for verdict in failed_rules(npu.judge(op))}
