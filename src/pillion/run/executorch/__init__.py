# SPDX-License-Identifier: Apache-2.0
"""Programs in the ExecuTorch runtime of the installed wheel. Its `cortex_m` kernels are not in the wheel: Pillion's own,
under the same names and with the same limits, are put into it, and an interpreter of NPU segments. The runtime lives in a child
process: a file that crashes it is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pillion.boards.toolchain import CXX
from pillion.emitters.pte import emit
from pillion.emitters.segments import marked_payloads
from pillion.importers.pte import ReadProgram
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Magnitude, Standardize
from pillion.run.executor import EXECUTORCH, USUAL, Outputs, Runnable, RunOptions, RunResult, Samples, judged
from pillion.run.executorch.remote import run_executorch
from pillion.run.executorch.wheel import find_wheel
from pillion.schemas.ir_payload import is_ir
from pillion.targets import executable

__all__ = ["ExecuTorch", "run_executorch"]


class ExecuTorch:
    """The real ExecuTorch runtime. It runs the file that a program was read from, or else the one that Pillion writes."""

    name = EXECUTORCH

    def judge(self, program: Runnable) -> Verdict:
        """Says whether the wheel, a C++ compiler, and kernels for every op are there."""
        if other := _composed_in_files(program):
            return Verdict(
                "executorch.norms",
                False,
                "ExecuTorch runs what a .pte says, and that has each norm or magnitude as several ops",
                f"{other.kind} `{other.name}`",
                "the .pte rounds otherwise",
                "save the .pte, and verify that file",
            )
        return judged(
            "executorch.program",
            find_wheel,
            CXX.path,
            lambda: _want_code(program),
            lambda: _bytes_of(program),
        )

    def run(self, program: Runnable, samples: Samples, options: RunOptions = USUAL) -> list[RunResult]:
        """Runs each sample in the runtime, which keeps what the program remembers until it is loaded anew."""
        raw, file = _bytes_of(program), program.file
        results = []
        for number, sample in enumerate(samples):
            goes_on = bool(number and options.stream and program.graph.states)
            run = partial(run_executorch, raw, timeout=options.timeout, goes_on=goes_on)
            results.append(RunResult(run(sample) if file is None else _as_in_memory(file, run, sample)))
        return results


def _want_code(program: Runnable) -> None:
    """Raises where a file holds an NPU's own code that nothing executes."""
    for payload in program.file.payloads if program.file is not None else ():
        if not is_ir(payload):
            executable(payload)


def _composed_in_files(program: Runnable) -> Op | None:
    """An op that files have as others, as its graph has none if the program comes from such a file."""
    return next((op for op in program.graph.ops if isinstance(op, (Magnitude, Standardize))), None)


def _bytes_of(program: Runnable) -> bytes:
    """NPU segments are TFLite here, but those of a file that was read: whatever is in it is run."""
    if program.file is not None:
        return program.file.raw
    graph, target = program.graph, program.target
    return emit(graph, target.core, payloads=marked_payloads(graph), delegate=target.delegate)


def _as_in_memory(
    file: ReadProgram, run: Callable[[Sequence[Array]], Outputs], sample: Sequence[Array]
) -> Outputs:
    """Arrays are as they lie in memory; the tensors of a file have logical axes in some order in memory."""
    logical = [x.transpose(np.argsort(o)) for x, o in zip(sample, file.input_orders, strict=True)]
    return tuple(
        np.ascontiguousarray(y.transpose(o)).reshape([y.shape[axis] for axis in o])
        for y, o in zip(run(logical), file.output_orders, strict=True)
    )
