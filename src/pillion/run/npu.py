# SPDX-License-Identifier: Apache-2.0
"""The NPU's own code, executed on this computer: what will be flashed, not the file that it was made from.

A device that can do this says so in its payloads. What is proven is what the code computes; no chip was tried."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from pillion.devices.payloads import Payloads
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Segment
from pillion.run.executor import NPU, USUAL, Outputs, Runnable, RunOptions, RunResult, Samples
from pillion.run.steps import steps


class NpuCode:
    """Runs the segments as the code of the NPU says, and everything else as the reference."""

    name = NPU

    def judge(self, program: Runnable) -> Verdict:
        """Says whether there is such code, and something that executes it."""
        rule = "it executes the code of NPUs whose compiler is installed and whose commands are known"
        where = f"--target {program.target.name}"
        help = "a target that `pillion targets` does not call `not proven`; `pillion doctor` says whether its compiler is there"
        if not _segments(program):
            return Verdict("npu.segments", False, rule, where, "no op runs on an NPU", help)
        payloads = program.payloads
        known = all(segment.run for segment in payloads.segments)
        reasons = [segment.why_not for segment in payloads.segments if segment.why_not]
        why = "; ".join(dict.fromkeys(reasons)) if payloads.converter else payloads.summary
        return Verdict("npu.code", known, rule, where, "" if known else why, help)

    def run(self, program: Runnable, samples: Samples, options: RunOptions = USUAL) -> list[RunResult]:
        """Runs each sample."""
        pairs = zip(_segments(program), _runs(program.payloads), strict=True)
        instead: dict[Op, Callable[..., object]] = {
            op: functools.partial(_as_arrays, op, run) for op, run in pairs
        }
        step = functools.partial(program.graph.reference_step, instead=instead)
        return [RunResult(made) for made in steps(program.graph, samples, options, step)]


def _segments(program: Runnable) -> list[Segment]:
    return [op for op in program.graph.ops if isinstance(op, Segment)]


def _runs(payloads: Payloads) -> list[Callable[..., tuple[bytes, ...]]]:
    return [segment.run for segment in payloads.segments if segment.run is not None]


def _as_arrays(op: Op, run: Callable[..., tuple[bytes, ...]], *operands: Array) -> Outputs:
    made = run(*operands)
    return tuple(
        np.frombuffer(data, value.dtype.numpy).reshape(value.shape)
        for data, value in zip(made, op.results, strict=True)
    )
