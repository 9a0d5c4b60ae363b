# SPDX-License-Identifier: Apache-2.0
"""Runs LiteRT's reference kernels, an independent judge: a graph in LiteRT's arithmetic without segments, or
the NPU's segments of other graphs with the reference for the rest."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence

from pillion.emitters import tflite
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Linear, ReduceSum, Segment
from pillion.run.executor import (
    DEFAULTS,
    LITERT,
    Outputs,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    require_open_segments,
    verdict_of_checks,
)
from pillion.run.litert_remote import LiteRtProcess
from pillion.run.stream_steps import run_by_reference
from pillion.targets import npu_target_example

COMPARE_OTHERS = (
    "compare other executors: --on npu executes the NPU's own code, where its compiler is installed"
)


class LiteRtExecutor:
    """Runs the graph's TFLite form in LiteRT's reference kernels."""

    name = LITERT

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether the package exists and supports the graph's ops."""
        rule = "it runs the segments that go to the NPU, and models that come from a .tflite file"
        checked = verdict_of_checks("litert.package", require_litert, lambda: require_open_segments(program))
        if not checked.ok:
            return checked
        graphs = [segment.body for segment in _npu_segments(program.graph)] or [program.graph]
        if reason := why_different(graphs):
            return Verdict(
                "litert.arithmetic",
                False,
                "LiteRT's reference kernels compute as the program does",
                reason,
                f"LiteRT computes other bytes: {reason}",
                COMPARE_OTHERS,
            )
        checks = [functools.partial(tflite.require_operators, graph) for graph in graphs]
        has_operators = verdict_of_checks("litert.operators", *checks)
        if not has_operators.ok:
            return has_operators
        knows = bool(_npu_segments(program.graph)) or program.graph.arithmetic is Arithmetic.TFLITE
        return Verdict(
            "litert.graph",
            knows,
            rule,
            f"--target {program.target.name}",
            "" if knows else "no op runs on an NPU",
            f"a target with an NPU, for instance {npu_target_example()}",
        )

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Returns the results of the samples."""
        segments = _npu_segments(program.graph)
        graph = program.graph
        if not segments and graph.arithmetic is Arithmetic.TFLITE:
            return list(_run_whole_graph(graph, samples, options))
        instead: dict[Op, Callable[..., object]] = {
            op: functools.partial(_run_in_litert, _open_interpreter(op.body), op.body, options.timeout)
            for op in segments
        }
        return run_by_reference(graph, samples, options, instead)


def require_litert() -> None:
    """Raises if LiteRT is not installed. It is not imported."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise PillionError(
            "LiteRT is not installed",
            rule="LiteRT's own kernels run the file",
            here="no package `ai_edge_litert` in this environment",
            help="pip install 'pillion[litert]'",
        )


def _run_whole_graph(graph: Graph, samples: Samples, options: RunOptions) -> Iterator[RunResult]:
    """Yields the results of a complete graph in LiteRT; a new interpreter resets its states."""
    interpreter = _open_interpreter(graph)
    for number, sample in enumerate(samples):
        if number and graph.states and not options.stream:
            interpreter = _open_interpreter(graph)
        yield RunResult(_run_in_litert(interpreter, graph, options.timeout, *sample))


def why_different(graphs: Sequence[Graph]) -> str:
    """Returns the op that LiteRT's reference kernels compute differently from a program, and why, or ""."""
    for graph in graphs:
        for op in graph.ops:
            if graph.arithmetic is Arithmetic.TFLITE_INTEGER and isinstance(op, (Linear, ReduceSum)):
                return f"{op.kind} `{op.name}`: LiteRT scales it in double precision, the NPU in integers"
            if graph.arithmetic is Arithmetic.TFLITE and isinstance(op, ReduceSum) and op.x.is_quantized:
                return f"{op.kind} `{op.name}`: LiteRT's reference kernel takes all numbers for uint8"
    return ""


def _npu_segments(graph: Graph) -> list[Segment]:
    return [op for op in graph.ops if isinstance(op, Segment)]


def _open_interpreter(body: Graph) -> LiteRtProcess:
    return LiteRtProcess(tflite.emit(body))


def _run_in_litert(interpreter: LiteRtProcess, body: Graph, seconds: float, *operands: Array) -> Outputs:
    """Returns the outputs of a file by Pillion, whose tensors have the names of values."""
    input_arrays = {value.name: data for value, data in zip(body.inputs, operands, strict=True)}
    outputs = interpreter.run([input_arrays[tensor.name] for tensor in interpreter.io.inputs], seconds)
    output_arrays = {
        tensor.name: array for tensor, array in zip(interpreter.io.outputs, outputs, strict=True)
    }
    return tuple(output_arrays[value.name] for value in body.outputs)
