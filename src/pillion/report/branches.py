# SPDX-License-Identifier: Apache-2.0
"""Branches: when they run, and their share of the work."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.compiled_program import CompiledProgram
from pillion.emitters.c.actions import branches_in, steps_in
from pillion.ops import Segment, flatten_ops
from pillion.report.report_facts import BranchFacts


def branches_of(program: CompiledProgram) -> Iterator[BranchFacts]:
    """Yields the branches of the C, with the cycles that are saved when one is skipped, as estimated."""
    cycles = {entry.op.name: entry.npu_cycles or entry.cpu_cycles for entry in program.ledger}
    lowered = program.lowered
    for branch in branches_in(lowered.items):
        steps = [lowered.steps[number].choice.op for number in steps_in(branch.body)]
        inner = [op.body.ops if isinstance(op, Segment) else flatten_ops([op]) for op in steps]
        ops = [op for some in inner for op in some]
        skipped = sum(cycles.get(op.name, 0) for op in ops)
        yield BranchFacts(
            branch=f"{ops[0].name} … {ops[-1].name}",
            runs_if=f"{branch.flag} is {str(branch.value).lower()}",
            ops=len(ops),
            macs=sum(op.macs for op in ops),
            cycles_estimate=skipped,
            share=f"{100 * skipped / max(sum(cycles.values()), 1):.1f} %",
            source=ops[-1].source,
        )
