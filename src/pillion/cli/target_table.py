# SPDX-License-Identifier: Apache-2.0
"""One model on several targets, side by side: the unit of each op, and the totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pillion.ir.numerics import Arithmetic
from pillion.ops import Segment
from pillion.partition.ledger import LedgerEntry, ProcessingUnit
from pillion.program import Program

NOT_THERE = "-"
"""The mark for an op that another target's program does not have: it was rewritten or merged."""


def compare_targets(programs: Mapping[str, Program]) -> dict[str, Any]:
    """Returns the differences between programs of one model, by target."""
    entries = {target: {e.op.name: e for e in program.ledger} for target, program in programs.items()}
    names = list(dict.fromkeys(name for by_name in entries.values() for name in by_name))
    return {
        "targets": [_target_row(target, program) for target, program in programs.items()],
        "ops": [_op_row(name, entries) for name in names],
    }


def columns(programs: Mapping[str, Program]) -> dict[str, Sequence[str]]:
    """Returns the columns of both tables."""
    target_columns = (
        "target",
        "ops_on_npu",
        "ops_on_cpu",
        "npu_cycles_estimate",
        "npu_cycles_by",
        "cpu_cycles_estimate",
        "sram_bytes",
        "npu",
    )
    return {"targets": target_columns, "ops": ("op", "kind", *programs)}


def _target_row(target: str, program: Program) -> dict[str, Any]:
    entries = program.ledger.entries
    on_npu = [e for e in entries if e.unit is ProcessingUnit.NPU]
    return {
        "target": target,
        "ops_on_npu": len(on_npu),
        "ops_on_cpu": len(entries) - len(on_npu),
        "npu_cycles_estimate": sum(program.payloads.cycles) or sum(e.npu_cycles for e in on_npu),
        "npu_cycles_by": program.payloads.cycles_by or ("rule of thumb" if on_npu else "–"),
        "cpu_cycles_estimate": sum(e.cpu_cycles for e in entries if e.unit is ProcessingUnit.CPU),
        "sram_bytes": program.sram_bytes,
        "npu": program.payloads.summary if on_npu else "no segment",
        "arithmetic_on_npu": _npu_arithmetic(program),
    }


def _npu_arithmetic(program: Program) -> str | None:
    """Returns the arithmetic of the NPU's segments, if any."""
    bodies: list[Arithmetic] = [op.body.arithmetic for op in program.graph.ops if isinstance(op, Segment)]
    return bodies[0].value if bodies else None


def _op_row(name: str, entries: Mapping[str, Mapping[str, LedgerEntry]]) -> dict[str, Any]:
    present = {target: by_name[name] for target, by_name in entries.items() if name in by_name}
    first = next(iter(present.values()))
    units = {
        target: _placement_text(present[target]) if target in present else NOT_THERE for target in entries
    }
    return {"op": name, "kind": first.op.kind, **units}


def _placement_text(entry: LedgerEntry) -> str:
    """Returns the unit of an op, and the reason if it is not the NPU."""
    if entry.unit is ProcessingUnit.NPU:
        return "npu"
    rule = entry.deciding.rule
    return "cpu" if rule == "target.npu" else f"cpu: {rule}, {entry.deciding.got}"
