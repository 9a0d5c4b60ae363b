# SPDX-License-Identifier: Apache-2.0
"""Executes the NPU's own code on this computer: the bytes that will be flashed, not their source file. A
device declares this ability in its payloads. No chip was compared."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from pillion.devices.payloads import Payloads
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Segment
from pillion.run.executor import DEFAULTS, NPU, Outputs, Runnable, RunOptions, RunResult, Samples
from pillion.run.stream_steps import run_by_reference
from pillion.targets import npu_targets


class NpuCodeExecutor:
    """Runs segments by the NPU's code, and everything else by the reference."""

    name = NPU

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether the program has NPU code and something executes it."""
        rule = "it executes the code of NPUs whose compiler is installed and whose commands are known"
        where = f"--target {program.target.name}"
        examples = (
            f", such as --target {chip.name}" for chip in npu_targets() if chip.npu and chip.npu.execute
        )
        help = (
            f"an NPU of one core{next(examples, '')}; `pillion doctor` says whether its compiler is installed"
        )
        if not _program_segments(program):
            return Verdict("npu.segments", False, rule, where, "no op runs on an NPU", help)
        payloads = program.payloads
        known = all(segment.run for segment in payloads.segments)
        reasons = [segment.why_not for segment in payloads.segments if segment.why_not]
        why = "; ".join(dict.fromkeys(reasons)) if payloads.converter else payloads.summary
        return Verdict("npu.code", known, rule, where, "" if known else why, help)

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Returns the results of the samples."""
        pairs = zip(_program_segments(program), _segment_runners(program.payloads), strict=True)
        instead: dict[Op, Callable[..., object]] = {
            op: functools.partial(_run_as_arrays, op, run) for op, run in pairs
        }
        return run_by_reference(program.graph, samples, options, instead)


def _program_segments(program: Runnable) -> list[Segment]:
    return [op for op in program.graph.ops if isinstance(op, Segment)]


def _segment_runners(payloads: Payloads) -> list[Callable[..., tuple[bytes, ...]]]:
    return [segment.run for segment in payloads.segments if segment.run is not None]


def _run_as_arrays(op: Op, run: Callable[..., tuple[bytes, ...]], *operands: Array) -> Outputs:
    outputs = run(*operands)
    return tuple(
        np.frombuffer(data, value.dtype.numpy).reshape(value.shape)
        for data, value in zip(outputs, op.results, strict=True)
    )
