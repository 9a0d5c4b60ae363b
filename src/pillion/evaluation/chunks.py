# SPDX-License-Identifier: Apache-2.0
"""Samples in chunks large enough to send to another process, and their outputs as batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pillion.data.sample import Array, Sample, Source, batch_samples, element_count
from pillion.errors import PillionError
from pillion.evaluation.metrics import Batch
from pillion.evaluation.program_io import ProgramIo

CHUNK_BYTES = 1 << 20
MOST_IN_CHUNK = 256


@dataclass(frozen=True)
class Chunk:
    """Several runs of a program: their inputs and samples."""

    runs: tuple[tuple[Array, ...], ...]
    real: tuple[tuple[Array, ...], ...]
    """The inputs of each run before quantization, if they were real numbers."""
    samples: tuple[tuple[Sample, ...], ...]


def chunks_of(source: Source, io: ProgramIo, limit: int | None) -> Iterator[Chunk]:
    """Yields samples in chunks of a number of samples or bytes."""
    runs: list[tuple[Array, ...]] = []
    real: list[tuple[Array, ...]] = []
    samples: list[tuple[Sample, ...]] = []
    size = sum(element_count(tensor.shape) * tensor.dtype.size_bytes for tensor in io.inputs)
    most = max(1, min(MOST_IN_CHUNK, CHUNK_BYTES // max(size, 1)))
    for inputs, parts in batch_samples(source.samples(io.inputs, limit), io.inputs):
        runs.append(io.quantized(inputs))
        real.append(inputs)
        samples.append(tuple(parts))
        if len(runs) == most:
            yield Chunk(tuple(runs), tuple(real), tuple(samples))
            runs, real, samples = [], [], []
    if runs:
        yield Chunk(tuple(runs), tuple(real), tuple(samples))


def batch_of(chunk: Chunk, outputs: Sequence[tuple[Array, ...]], io: ProgramIo) -> Batch:
    """Returns outputs, labels and inputs of a chunk with a sample axis."""
    samples = [sample for parts in chunk.samples for sample in parts]
    columns: list[list[Array]] = [[] for _ in io.outputs]
    for parts, ys in zip(chunk.samples, outputs, strict=True):
        for column, y in zip(columns, ys, strict=False):
            column.append(_output_rows_by_sample(y, len(parts), parts[0], io))
    labels = [sample.label for sample in samples]
    if any(label is None for label in labels) and not all(label is None for label in labels):
        raise PillionError(
            "some samples have labels, and some have none",
            rule="all samples have labels, or none has",
            here=f"no label: {next(s.place for s in samples if s.label is None)}",
            help="leave the samples without labels out",
        )
    return Batch(
        tuple(np.concatenate(column) for column in columns if column),
        None if labels[0] is None else _stack_samples(samples),
        tuple(np.concatenate([s.inputs[i] for s in samples]) for i in range(len(io.inputs))),
        tuple(sample.place for sample in samples),
    )


def _output_rows_by_sample(y: Array, count: int, first: Sample, io: ProgramIo) -> Array:
    """Returns an output's rows by sample; a sample that was a whole input owns all rows."""
    rows = io.inputs[0].rows
    if rows == 1 or first.inputs[0].shape == io.inputs[0].shape:
        return y.reshape(1, -1) if y.ndim == 0 or y.shape[0] != 1 else y
    if y.ndim == 0 or y.shape[0] != rows:
        raise PillionError(
            "an output cannot be told apart by samples",
            rule=f"the program takes {rows} samples at once, and its outputs have a row for each",
            here=f"an output of shape {list(y.shape)}",
            help="compile the model for a batch of 1",
        )
    return y[:count]


def _stack_samples(samples: Sequence[Sample]) -> Array:
    labels = [np.asarray(sample.label) for sample in samples]
    if len({label.shape for label in labels}) != 1:
        odd = next(s for s, label in zip(samples, labels, strict=True) if label.shape != labels[0].shape)
        raise PillionError(
            "labels have different shapes",
            rule="all labels have the same shape",
            here=f"{list(labels[0].shape)} and, for {odd.place}, {list(np.asarray(odd.label).shape)}",
            help="give each sample a label of the same kind",
        )
    return np.stack(labels)
