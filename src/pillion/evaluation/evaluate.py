# SPDX-License-Identifier: Apache-2.0
"""`pillion.evaluate`: runs a program on data and computes metrics of its outputs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pillion.data.python_data import open_data
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.data.sample import Array, Source, element_count
from pillion.errors import PillionError
from pillion.evaluation.agreement import agreement
from pillion.evaluation.chunks import Chunk, batch_of, chunks_of
from pillion.evaluation.evaluation_result import Evaluation, FloatComparison
from pillion.evaluation.float_outputs import FloatReference
from pillion.evaluation.metrics import Batch, Confusion, Metric, TopK, default_metrics, metric_of
from pillion.evaluation.program_io import ProgramIo, program_io
from pillion.host_io.progress import Advance
from pillion.ir.precision_choice import FloatRuns
from pillion.program import Program
from pillion.run.executor import HOST, Outputs, RunOptions
from pillion.run.parallel_runs import check_workers, open_chunk_runner

MOST_CLASSES = 1000
"""Most classes for which a confusion matrix is kept."""
MetricName = str | Callable[..., Any]
Run = Callable[[Iterable[Any]], Iterator[list[Outputs]]]
"""Runs chunks of samples in order."""


@dataclass
class Scores:
    """The metrics of one model, accumulated by batch."""

    metrics: list[Metric]
    confusion: Confusion | None = None

    def add(self, batch: Batch) -> None:
        """Adds a batch of samples."""
        for metric in (*self.metrics, *((self.confusion,) if self.confusion else ())):
            metric.add(batch)

    def values(self) -> dict[str, float]:
        """Returns all numbers by name."""
        return {name: number for metric in self.metrics for name, number in metric.values().items()}


@dataclass
class FloatModelDistance:
    """The distance between the first outputs of program and float model."""

    signal: float = 0.0
    noise: float = 0.0
    same: int = 0
    samples: int = 0
    choices: int = 0

    def add(self, found: Batch, wanted: Batch) -> None:
        """Adds a batch of samples."""
        got, real = found.flat.astype(np.float64), wanted.flat.astype(np.float64)
        self.signal += float((real**2).sum())
        self.noise += float(((got - real) ** 2).sum())
        self.same += int((got.argmax(axis=1) == real.argmax(axis=1)).sum())
        self.samples += len(got)
        self.choices = got.shape[1]

    def comparison(self, metrics: dict[str, float]) -> FloatComparison:
        """Returns the result with the float model's metrics."""
        ratio = 10 * np.log10(self.signal / self.noise) if self.signal and self.noise else None
        same = self.same / self.samples if self.choices > 1 else None
        return FloatComparison(metrics, same, None if ratio is None else float(ratio))


@dataclass
class _EvaluationTotals:
    """Everything accumulated during an evaluation."""

    source: Source
    io: ProgramIo
    reference: FloatReference | None
    names: Sequence[MetricName]
    """The metrics that the user names; none for those that suit the data."""
    named: list[Metric]
    """Metrics of these names, for the program."""
    is_compared: bool
    """Whether a float model or another executor judges, too, so that data needs no labels."""
    scores: Scores | None = None
    floats: Scores | None = None
    distance: FloatModelDistance = field(default_factory=FloatModelDistance)
    labels: set[int] = field(default_factory=set)
    samples: int = 0
    seconds_in_float: float = 0.0

    def add(self, chunk: Chunk, outputs: Sequence[Outputs]) -> None:
        """Adds the outputs of a chunk, and those of the float model."""
        if self.scores is None:
            self.scores = self._initial_scores(chunk, self.named)
            again = [metric_of(name) for name in self.names]
            self.floats = self._initial_scores(chunk, again) if self.reference is not None else None
        batch = batch_of(chunk, list(map(self.io.dequantized, outputs)), self.io)
        self.samples += len(batch.places)
        self.scores.add(batch)
        if batch.labels is not None and batch.labels.ndim == 1 and batch.labels.dtype.kind in "iub":
            self.labels |= set(np.unique(batch.labels).tolist())
        if self.reference is not None and self.floats is not None:
            begun = time.perf_counter()
            found = self.reference.outputs(list(map(self.io.real_inputs, chunk.real)))
            expected = batch_of(chunk, found, self.io)
            self.floats.add(expected)
            self.distance.add(batch, expected)
            self.seconds_in_float += time.perf_counter() - begun

    def _initial_scores(self, chunk: Chunk, named: list[Metric]) -> Scores:
        """Returns the chosen or default metrics, and a confusion matrix for classes."""
        first = chunk.samples[0][0].label
        inputs, outputs = (
            [element_count(tensor.of_one) for tensor in some] for some in (self.io.inputs, self.io.outputs)
        )
        metrics = named or [
            metric_of(name) for name in default_metrics(outputs, first, inputs, is_compared=self.is_compared)
        ]
        is_classes = any(isinstance(metric, TopK) for metric in metrics)
        if is_classes:
            _require_order_of_classes(self.source, outputs[0])
        return Scores(metrics, Confusion() if is_classes and outputs[0] <= MOST_CLASSES else None)

    def caveats(self) -> Iterator[str]:
        """Yields caveats about the numbers."""
        if self.io.has_states:
            yield "states are reset before each sample; --events judges the steps of recordings"
        if len(self.labels) == 1:
            yield f"all samples have the same label, {next(iter(self.labels))}: a model that always answers it would be right"


def evaluate(
    program: Program | str | Path,
    data: Any,
    metrics: MetricName | Sequence[MetricName] | None = None,
    *,
    limit: int | None = None,
    workers: int | None = None,
    native: bool = False,
    on: str = HOST,
    float_model: FloatRuns | None = None,
    agree: Sequence[str] = (),
    agree_samples: int = 3,
    reading: Reading = AS_IT_IS,
    timeout: float = 60.0,
    progress: Advance | None = None,
) -> Evaluation:
    """Runs a program, or the C project in a folder, on data, and returns its metrics.

    `data` is a path, `file.py:function`, arrays, a dataset or loader, or a generator. `metrics` are `top1`,
    `top5`, `auc`, `mse`, `mae`, `file.py:function` or functions of (outputs, labels). By default the first
    label decides; unlabelled data needs none if a float model or an executor is compared.

    The generated C runs in one process per core, or in `workers` processes. `float_model` is
    evaluated too; `agree` names executors that also run the first samples."""
    check_limit(limit)
    source = open_data(data, reading)
    io = program_io(program)
    if io.streaming is not None:
        raise PillionError(
            f"`{io.model}` has no answers to samples",
            rule="it is a stream, which takes a few new frames in each step of a recording",
            here=f"takes {io.streaming.takes[0]}",
            help="--events events.csv (in Python pillion.evaluate_events) judges it on recordings; or evaluate the model of whole windows",
        )
    reference = FloatReference(float_model, io) if float_model is not None else None
    names = metrics if metrics is None or isinstance(metrics, (list, tuple)) else (metrics,)
    if names is not None and not names:
        raise PillionError(
            "no metric is asked for",
            rule="a metric at least, or None for those that suit the data",
            here="()",
            help='metrics=("top1",)',
        )
    named = [metric_of(name) for name in names or ()]  # before anything is run
    totals = _EvaluationTotals(
        source, io, reference, names or (), named, reference is not None or bool(agree)
    )
    first: list[tuple[Array, ...]] = []
    runnable = Path(program) if isinstance(program, (str, Path)) else program
    count = check_workers(workers) if on == HOST else 1
    with open_chunk_runner(runnable, on, count, RunOptions(timeout, native=native)) as run:
        total = _sample_count(source, limit)
        begun = time.perf_counter()
        # Beside a float model the program waits for it, so that each has the computer for itself.
        at_once = 2 * count if reference else None
        for chunk, outputs in _run_chunks(run, chunks_of(source, io, limit), at_once):
            totals.add(chunk, outputs)
            first += chunk.runs[: max(agree_samples - len(first), 0)]
            if progress is not None:
                progress(totals.samples, total)
        seconds = time.perf_counter() - begun - totals.seconds_in_float
    if totals.scores is None:
        raise _no_samples_error(source)
    agreements = tuple(
        agreement(runnable, io, first, executor, on, RunOptions(timeout)) for executor in agree
    )
    confusion = totals.scores.confusion
    counts = confusion.counts if confusion is not None else None
    return Evaluation(
        model=io.model,
        target=io.target,
        data=source.name,
        on=on,
        metrics=totals.scores.values(),
        samples=totals.samples,
        seconds=seconds,
        workers=count,
        labels=len(totals.labels),
        confusion=None if counts is None else tuple(tuple(map(int, row)) for row in counts),
        classes=source.classes,
        float_model=totals.distance.comparison(totals.floats.values()) if totals.floats else None,
        agreements=agreements,
        notes=tuple(totals.caveats()),
    )


def _run_chunks(
    run: Run, chunks: Iterator[Chunk], at_once: int | None
) -> Iterator[tuple[Chunk, list[Outputs]]]:
    """Yields chunks with outputs: continuously, or `at_once` at a time with the program idle in between."""
    if at_once is None:
        flowing, seen = itertools.tee(chunks)
        yield from zip(seen, run(chunk.runs for chunk in flowing), strict=True)
        return
    while some := list(itertools.islice(chunks, at_once)):
        yield from zip(some, list(run(chunk.runs for chunk in some)), strict=True)


def _require_order_of_classes(source: Source, outputs: int) -> None:
    """Raises if the data's classes have names and their order in the outputs is unknown."""
    if source.classes and len(source.classes) != outputs:
        shown = ", ".join(source.classes[:8]) + (", …" if len(source.classes) > 8 else "")
        raise PillionError(
            f"{source.name} has {len(source.classes)} classes, the model {outputs} outputs",
            rule="classes go by the order of their names, so there are as many as outputs; or --classes names all outputs in their order",
            here=shown,
            help=f"--classes {','.join(source.classes[:3])},…, a name for each of the {outputs} outputs; folders may have numbers as names",
        )


def _sample_count(source: Source, limit: int | None) -> int | None:
    count = source.count()
    return limit if count is None else min(count, limit or count)


def check_limit(limit: int | None) -> None:
    """Raises if no sample is left."""
    if limit is not None and limit < 1:
        raise PillionError(
            f"{limit} samples are none",
            rule="--limit is the most samples that are evaluated, 1 at least",
            here=f"{limit}",
            help="leave it out to evaluate all",
        )


def _no_samples_error(source: Source) -> PillionError:
    return PillionError(
        f"there is no sample in {source.name}",
        rule="one sample at least",
        here="the data is empty",
        help="look at the path, or at what the function gives",
    )
