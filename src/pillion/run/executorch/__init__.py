# SPDX-License-Identifier: Apache-2.0
"""Runs programs in the ExecuTorch runtime of the installed wheel, in a child process. The wheel has no
`cortex_m` kernels: Pillion registers its own, with the same names and limits, and an interpreter of NPU
segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pillion.boards.toolchain import CXX
from pillion.emitters.pte import emit
from pillion.emitters.segments import host_delegate_payloads
from pillion.importers.pte import ReadProgram
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Magnitude, Normalize
from pillion.run.executor import (
    DEFAULTS,
    EXECUTORCH,
    Outputs,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    verdict_of_checks,
)
from pillion.run.executorch.remote import run_executorch
from pillion.run.executorch.wheel import find_wheel
from pillion.schemas.ir_payload import is_ir
from pillion.targets import npu_interpreter

__all__ = ["ExecuTorchExecutor", "run_executorch"]


class ExecuTorchExecutor:
    """The real ExecuTorch runtime. It runs the file that a program was read from, otherwise Pillion's."""

    name = EXECUTORCH

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether the wheel, a C++ compiler, and kernels for every op exist."""
        if decomposed := next(
            (op for op in program.graph.ops if isinstance(op, (Magnitude, Normalize))), None
        ):
            return Verdict(
                "executorch.norms",
                False,
                "ExecuTorch runs what a .pte says, and that has each norm or magnitude as several ops",
                f"{decomposed.kind} `{decomposed.name}`",
                "the .pte rounds otherwise",
                "save the .pte, and verify that file",
            )
        return verdict_of_checks(
            "executorch.program",
            find_wheel,
            CXX.path,
            lambda: _require_code(program),
            lambda: _program_file_bytes(program),
        )

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Returns the results of the samples. The runtime keeps states until it loads the program again."""
        raw, file = _program_file_bytes(program), program.file
        results = []
        for number, sample in enumerate(samples):
            goes_on = bool(number and options.stream and program.graph.states)
            run = partial(run_executorch, raw, timeout=options.timeout, goes_on=goes_on)
            results.append(
                RunResult(run(sample) if file is None else _run_in_memory_order(file, run, sample))
            )
        return results


def _require_code(program: Runnable) -> None:
    """Raises if a file contains NPU code that nothing executes."""
    for payload in program.file.payloads if program.file is not None else ():
        if not is_ir(payload):
            npu_interpreter(payload)


def _program_file_bytes(program: Runnable) -> bytes:
    """Returns the program's file; NPU segments are TFLite, except in a file that was read."""
    if program.file is not None:
        return program.file.raw
    graph, target = program.graph, program.target
    return emit(
        graph, target.core, find_wheel().runtime, host_delegate_payloads(graph), delegate=target.delegate
    )


def _run_in_memory_order(
    file: ReadProgram, run: Callable[[Sequence[Array]], Outputs], sample: Sequence[Array]
) -> Outputs:
    """Returns the outputs of a file for arrays in memory order, converted to and from its logical axes."""
    logical = [x.transpose(np.argsort(o)) for x, o in zip(sample, file.input_orders, strict=True)]
    return tuple(
        np.ascontiguousarray(y.transpose(o)).reshape([y.shape[axis] for axis in o])
        for y, o in zip(run(logical), file.output_orders, strict=True)
    )
