# SPDX-License-Identifier: Apache-2.0
"""Facts about branches: when they run, and their share of the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pillion.cli.console import Facts

if TYPE_CHECKING:
    from pillion.program import Program


def branch_facts(program: Program) -> Facts:
    """Returns a row for each branch, with the cycles that are saved when it is skipped, as estimated."""
    from pillion.emitters.c.loop_rolling import branches_in, steps_in
    from pillion.ops import Segment, flatten_ops

    cycles = {entry.op.name: entry.npu_cycles or entry.cpu_cycles for entry in program.ledger}
    rows, lowered = [], program.lowered
    for branch in branches_in(lowered.items):
        steps = [lowered.steps[number].choice.op for number in steps_in(branch.body)]
        inner = [op.body.ops if isinstance(op, Segment) else flatten_ops([op]) for op in steps]
        ops = [op for some in inner for op in some]
        skipped = sum(cycles.get(op.name, 0) for op in ops)
        rows.append(
            {
                "branch": f"{ops[0].name} … {ops[-1].name}",
                "runs_if": f"{branch.flag} is {str(branch.value).lower()}",
                "ops": len(ops),
                "macs": sum(op.macs for op in ops),
                "cycles_estimate": skipped,
                "share": f"{100 * skipped / max(sum(cycles.values()), 1):.1f} %",
                "source": ops[-1].source,
            }
        )
    return {"branches": rows} if rows else {}
