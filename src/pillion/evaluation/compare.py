# SPDX-License-Identifier: Apache-2.0
"""`pillion compare`: a program with its float model, layer by layer, or two programs by cost and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.data.python_data import open_data
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.data.sample import Array, batch_samples
from pillion.errors import PillionError
from pillion.evaluation.evaluate import MetricName, evaluate
from pillion.evaluation.evaluation_result import Evaluation
from pillion.evaluation.float_outputs import FloatReference
from pillion.evaluation.layer_errors import Comparison, LayerErrorMeasurement
from pillion.evaluation.program_costs import ProgramCosts, can_be_measured, costs_of
from pillion.evaluation.program_io import program_io
from pillion.host_io.progress import Advance
from pillion.ir.precision_choice import FloatRuns
from pillion.program import Program
from pillion.run.executor import HOST, RunOptions, verdict_of_checks
from pillion.run.executor_list import require_tools
from pillion.run.parallel_runs import check_workers, open_chunk_runner

if TYPE_CHECKING:
    from pillion.importers.torch.float_tensors import FloatTensors

SAMPLES = 8
"""Default number of compared samples; each runs once per layer."""


def compare_layers(
    program: Program,
    float_model: FloatRuns,
    tensors: FloatTensors,
    data: Any,
    *,
    limit: int = SAMPLES,
    progress: Advance | None = None,
) -> Comparison:
    """Compares a program with its float model on data; `tensors` gives the float model's tensors."""
    io = program_io(program)
    reference = FloatReference(float_model, io)
    layers = LayerErrorMeasurement(io.model, io.target, program.graph, tensors)
    samples = open_data(data).samples(io.inputs, limit)
    for number, (inputs, _) in enumerate(batch_samples(samples, io.inputs), start=1):
        layers.add(io.quantized(inputs), reference.inputs(io.real_inputs(inputs)))
        if progress is not None:
            progress(number, limit)
    if not layers.samples:
        raise PillionError(
            "there is nothing to compare on",
            rule="one sample at least",
            here="the data is empty",
            help="look at the path, or at what the function gives",
        )
    return layers.result()


@dataclass(frozen=True)
class ComparedSide:
    """One of two programs: its costs, and its metrics on the data."""

    program: str
    model: str
    target: str
    costs: ProgramCosts
    macs: int
    ops: int
    metrics: dict[str, float]
    not_measured: str = ""
    """The reason why flash and instructions are missing."""


@dataclass(frozen=True)
class TwoPrograms:
    """Two compared programs."""

    first: ComparedSide
    second: ComparedSide
    samples: int = 0
    same_answer: float | None = None
    """Fraction of samples with the same answer; None without data, or with one output."""
    signal_to_noise_db: float | None = None
    """Ratio of the second program's output power to the difference's, in dB."""


def compare_programs(
    first: Program | Path,
    second: Program | Path,
    names: tuple[str, str],
    data: Any = None,
    metrics: Sequence[MetricName] | None = None,
    *,
    measure: bool = True,
    limit: int | None = None,
    native: bool = False,
    workers: int | None = None,
    reading: Reading = AS_IT_IS,
    progress: Advance | None = None,
) -> TwoPrograms:
    """Compares RAM, flash and instructions of two programs as far as they can be measured, and metrics if there is
    data."""
    evaluation: Evaluation | None = None
    if data is not None:
        with _as_float_model(second, native, workers) as other:
            evaluation = evaluate(
                first,
                data,
                metrics,
                limit=limit,
                native=native,
                workers=workers,
                float_model=other,
                reading=reading,
                progress=progress,
            )
    second_evaluation = evaluation.float_model if evaluation else None
    return TwoPrograms(
        _measure_compared_side(first, names[0], evaluation.metrics if evaluation else {}, measure),
        _measure_compared_side(
            second, names[1], second_evaluation.metrics if second_evaluation else {}, measure
        ),
        evaluation.samples if evaluation else 0,
        second_evaluation.same_answer if second_evaluation else None,
        second_evaluation.signal_to_noise_db if second_evaluation else None,
    )


def _measure_compared_side(
    program: Program | Path, name: str, metrics: dict[str, float], measure: bool
) -> ComparedSide:
    io = program_io(program)
    reason = "" if measure else "--no-measure"
    if measure and not can_be_measured(program):
        reason = f"`{io.model}` has segments for an NPU, which no emulator has"
    tools = verdict_of_checks("tools", lambda: require_tools("board"))
    if measure and not reason and not tools.ok:
        reason = tools.what
    costs = costs_of(program, flash=not reason, instructions=not reason)
    macs, ops = io.macs, io.ops
    return ComparedSide(name, io.model, io.target, costs, macs, ops, metrics, reason)


@dataclass(frozen=True)
class ProgramAsFloatModel:
    """A program that takes the place of a float model: real numbers in and out."""

    name: str
    input_shapes: tuple[tuple[int, ...], ...]
    outputs: Callable[[Sequence[Sequence[Array]]], list[tuple[Array, ...]]]


@contextmanager
def _as_float_model(
    program: Program | Path, native: bool, workers: int | None
) -> Iterator[ProgramAsFloatModel]:
    """Starts a program for a block."""
    io = program_io(program)
    with open_chunk_runner(program, HOST, workers, RunOptions(native=native)) as run:

        def outputs(runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
            quantized = list(map(io.quantized, runs))
            each = -(-len(quantized) // check_workers(workers))
            chunks = (quantized[at : at + each] for at in range(0, len(quantized), each))
            return [io.dequantized(ys) for chunk in run(chunks) for ys in chunk]

        yield ProgramAsFloatModel(io.model, tuple(spec.shape for spec in io.inputs), outputs)
