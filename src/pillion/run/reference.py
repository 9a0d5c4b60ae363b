# SPDX-License-Identifier: Apache-2.0
"""The reference executor: the exact integers of every op, in numpy."""

from __future__ import annotations

from pillion.ir.verdict import Verdict
from pillion.run.executor import (
    DEFAULTS,
    REFERENCE,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    judged,
    require_open,
)
from pillion.run.stream_steps import steps


class Reference:
    """Runs every op's reference, in execution order."""

    name = REFERENCE

    def judge(self, program: Runnable) -> Verdict:
        """Returns a positive verdict unless a segment's ops are unknown."""
        return judged("reference.ops", lambda: require_open(program))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Returns the results of the samples."""
        return [
            RunResult(made) for made in steps(program.graph, samples, options, program.graph.reference_step)
        ]
