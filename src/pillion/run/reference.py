# SPDX-License-Identifier: Apache-2.0
"""The definition: the exact integers of every op, in numpy."""

from __future__ import annotations

from pillion.ir.verdict import Verdict
from pillion.run.executor import (
    REFERENCE,
    USUAL,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    judged,
    want_open,
)
from pillion.run.steps import steps


class Reference:
    """Computes every op's own reference, in running order."""

    name = REFERENCE

    def judge(self, program: Runnable) -> Verdict:
        """Says yes: it needs nothing and runs everything whose ops are known."""
        return judged("reference.ops", lambda: want_open(program))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = USUAL) -> list[RunResult]:
        """Computes the outputs for each sample."""
        return [
            RunResult(made) for made in steps(program.graph, samples, options, program.graph.reference_step)
        ]
