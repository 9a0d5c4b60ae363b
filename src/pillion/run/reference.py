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
    require_open_segments,
    verdict_of_checks,
)
from pillion.run.stream_steps import run_by_reference


class ReferenceExecutor:
    """Runs every op's reference, in execution order."""

    name = REFERENCE

    def judge(self, program: Runnable) -> Verdict:
        """Returns a positive verdict unless a segment's ops are unknown."""
        return verdict_of_checks("reference.ops", lambda: require_open_segments(program))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Returns the results of the samples."""
        return run_by_reference(program.graph, samples, options)
