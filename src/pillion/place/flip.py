# SPDX-License-Identifier: Apache-2.0
"""The smallest change to an op that would let the NPU take it, found by trying: a changed op is judged like any other."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.devices.device import Device
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict, all_ok, failures

KEPT = "user.keep_on_cpu"


@dataclass(frozen=True)
class Flip:
    """A change that would bring an op to the NPU: what to change, in words, and the op after it."""

    words: str
    op: Op


def smallest_change(op: Op, npu: Device, verdicts: tuple[Verdict, ...]) -> str:
    """Says what to change, in words; empty where no change is known to help."""
    flip = find_flip(op, npu, verdicts)
    return flip.words if flip else ""


def find_flip(op: Op, npu: Device, verdicts: tuple[Verdict, ...]) -> Flip | None:
    """Finds a change that satisfies each failing rule in turn; the whole counts only if the NPU then takes the op."""
    failed = failures(verdicts)
    words = ["leave out --keep-on-cpu"] if any(v.rule == KEPT for v in failed) else []
    changed = op
    for verdict in failed:
        step = _step(changed, npu, verdict.rule)
        if step:
            words.append(step.words)
            changed = step.op
    return Flip(" and ".join(words), changed) if words and all_ok(npu.judge(changed)) else None


def _step(op: Op, npu: Device, rule: str) -> Flip | None:
    """The first change that satisfies one rule and breaks none that held."""
    broken = _failing(op, npu)
    if rule not in broken:
        return None
    for words, changed in npu.changes(rule.split(".")[1], op):
        if _failing(changed, npu) < broken:
            return Flip(words, changed)
    return None


def _failing(op: Op, npu: Device) -> set[str]:
    return {verdict.rule for verdict in failures(npu.judge(op))}
