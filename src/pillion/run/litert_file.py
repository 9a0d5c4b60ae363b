# SPDX-License-Identifier: Apache-2.0
"""Runs the original `.tflite` file of a program in LiteRT, the only executor that reveals errors of the
importer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops import Segment
from pillion.run.executor import (
    DEFAULTS,
    LITERT_FILE,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    verdict_of_checks,
)
from pillion.run.litert import COMPARE_OTHERS, require_litert, why_different
from pillion.run.litert_remote import LiteRtProcess, LiteRtTensor
from pillion.run.process_messages import as_sendable
from pillion.run.runtime_process import RuntimeRefusal

REWRITTEN_HELP = "`litert` runs the same graph, written anew by Pillion"
RULE = "it runs the .tflite file that a program was read from, as it came"


class LiteRtFileExecutor:
    """Runs the file in LiteRT's reference kernels, if the program has the same arithmetic and inputs."""

    name = LITERT_FILE

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether a file exists, LiteRT accepts it, and its results should equal the program's."""
        raw = program.source
        if raw is None:
            where = f"`{program.graph.name}` was not read from a .tflite file"
            return _negative_verdict("there is no file", where, "compile a .tflite: -m net.tflite")
        if not (installed := verdict_of_checks("litert.file", require_litert)).ok:
            return installed
        segments = [op.body for op in program.graph.ops if isinstance(op, Segment)]
        if len(segments) < len(program.graph.ops) and program.graph.arithmetic is not Arithmetic.TFLITE:
            return _negative_verdict(
                "the program rounds otherwise than the file",
                f"{program.graph.arithmetic.value} arithmetic",
                "leave --arithmetic out; a target without NPU",
            )
        if reason := why_different([*segments, program.graph]):
            return _negative_verdict(f"LiteRT computes other bytes: {reason}", reason, COMPARE_OTHERS)
        try:
            file_io = _started_interpreter(raw).io
            file_types = (_tensor_types_text(file_io.inputs), _tensor_types_text(file_io.outputs))
        except RuntimeRefusal as error:
            return _negative_verdict(
                f"LiteRT itself refuses the file: {error.what}", error.what, REWRITTEN_HELP
            )
        except PillionError as error:
            return _negative_verdict(error.what, error.here, REWRITTEN_HELP)
        program_types = (_value_types_text(program.graph.inputs), _value_types_text(program.graph.outputs))
        if program_types != file_types:
            here = f"the program: {program_types[0]} to {program_types[1]}; the file: {file_types[0]} to {file_types[1]}"
            return _negative_verdict(
                "the program takes or gives other tensors than the file",
                here,
                "leave --io-dtype, --state and --stream out",
            )
        return Verdict("litert.file", True, RULE, f"{len(raw):,} bytes")

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Returns the results of the samples."""
        if program.source is None:
            raise PillionError(
                "the file as it came has no parts that run on their own: where `litert` is right, the file was read wrongly",
                rule=RULE,
                here=f"`{program.graph.name}`",
                help="report it, with the file",
            )
        return list(_run_samples(program.source, program.graph, samples, options))


def _negative_verdict(what: str, here: str, help: str) -> Verdict:
    return Verdict("litert.file", False, RULE, here, what, help)


def _started_interpreter(raw: bytes) -> LiteRtProcess:
    """Returns an interpreter that has run once on zeros, because LiteRT refuses some files only then."""
    interpreter = LiteRtProcess(raw)
    interpreter.run([as_sendable(np.zeros(tensor.shape, tensor.dtype)) for tensor in interpreter.io.inputs])
    return interpreter


def _tensor_types_text(tensors: Sequence[LiteRtTensor]) -> str:
    return ", ".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in tensors)


def _value_types_text(values: Sequence[Value]) -> str:
    return ", ".join(f"{np.dtype(v.dtype.numpy)}{list(v.shape)}" for v in values)


def _run_samples(raw: bytes, graph: Graph, samples: Samples, options: RunOptions) -> Iterator[RunResult]:
    """Yields the results of the samples; a new interpreter resets states."""
    interpreter = LiteRtProcess(raw)
    for number, sample in enumerate(samples):
        if number and graph.states and not options.stream:
            interpreter = LiteRtProcess(raw)
        try:
            yield RunResult(interpreter.run(sample, options.timeout))
        except RuntimeRefusal as error:
            raise PillionError(
                "LiteRT stops on the file as it came", rule=RULE, here=error.what, help=REWRITTEN_HELP
            ) from None
