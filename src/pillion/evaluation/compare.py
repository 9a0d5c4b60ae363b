# SPDX-License-Identifier: Apache-2.0
"""`pillion compare`: a program with its float model, layer by layer, or two programs by cost and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.data.python_data import open_data
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.data.sample import Array, batched
from pillion.errors import PillionError
from pillion.evaluation.evaluate import MetricName, evaluate
from pillion.evaluation.evaluation_result import Evaluation
from pillion.evaluation.float_outputs import FloatModelProtocol, FloatReference
from pillion.evaluation.layer_errors import Comparison, LayerErrorMeasurement
from pillion.evaluation.program_costs import ProgramCosts, can_be_measured, costs_of
from pillion.evaluation.program_io import ProgramIo, program_io
from pillion.host_io.progress import Advance
from pillion.program import Program
from pillion.run.executor import HOST, Outputs, RunOptions, verdict_of_checks
from pillion.run.executor_list import require_tools
from pillion.run.parallel_runs import check_workers, open_chunk_runner

if TYPE_CHECKING:
    from pillion.importers.torch.float_tensors import FloatTensors

SAMPLES = 8
"""Default number of compared samples; each runs once per layer."""


def compare_layers(
    program: Program,
    float_model: FloatModelProtocol,
    tensors: FloatTensors,
    data: Any,
    *,
    limit: int = SAMPLES,
    reading: Reading = AS_IT_IS,
    progress: Advance | None = None,
) -> Comparison:
    """Compares a program with its float model on data; `tensors` gives the float model's tensors."""
    borders = program_io(program)
    reference = FloatReference(float_model, borders)
    layers = LayerErrorMeasurement(borders.model, borders.target, program.graph, tensors)
    samples = open_data(data, reading).samples(borders.inputs, limit)
    for number, (inputs, _) in enumerate(batched(samples, borders.inputs), start=1):
        quantized = [tensor.quantized(x) for tensor, x in zip(borders.inputs, inputs, strict=True)]
        real = [tensor.real(x) for tensor, x in zip(borders.inputs, inputs, strict=True)]
        layers.add(quantized, reference.inputs(real))
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
    """Power of the second program's outputs over that of the difference, in dB."""


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
        with OtherProgram(second, native, workers) as other:
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
    borders = program_io(program)
    reason = "" if measure else "--no-measure"
    if measure and not can_be_measured(program):
        reason = f"{borders.target} has an NPU, which no emulator has"
    tools = verdict_of_checks("tools", lambda: require_tools("board"))
    if measure and not reason and not tools.ok:
        reason = tools.what
    costs = costs_of(program, flash=not reason, instructions=not reason)
    macs, ops = borders.macs, borders.ops
    return ComparedSide(name, borders.model, borders.target, costs, macs, ops, metrics, reason)


@dataclass
class OtherProgram:
    """A program that takes the place of a float model: real numbers in and out."""

    program: Program | Path
    native: bool = False
    workers: int | None = None
    borders: ProgramIo = field(init=False)
    _running: AbstractContextManager[Any] | None = None
    _run: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        self.borders = program_io(self.program)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.borders.model

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the inputs."""
        return tuple(tensor.shape for tensor in self.borders.inputs)

    def __enter__(self) -> OtherProgram:
        self._running = open_chunk_runner(self.program, HOST, self.workers, RunOptions(native=self.native))
        self._run = self._running.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        assert self._running is not None
        self._running.__exit__(*reason)

    def outputs(self, runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        """Returns the outputs of each run as real numbers."""
        assert self._run is not None
        quantized = [
            tuple(tensor.quantized(x) for tensor, x in zip(self.borders.inputs, xs, strict=True))
            for xs in runs
        ]
        each = -(-len(quantized) // check_workers(self.workers))
        chunks = (quantized[at : at + each] for at in range(0, len(quantized), each))
        results: list[Outputs] = [ys for chunk in self._run(chunks) for ys in chunk]
        return [
            tuple(tensor.real(y) for tensor, y in zip(self.borders.outputs, ys, strict=True))
            for ys in results
        ]
