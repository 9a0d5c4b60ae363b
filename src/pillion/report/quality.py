# SPDX-License-Identifier: Apache-2.0
"""Quantization quality: each integer tensor compared with the float model's over samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pillion.compiled_program import CompiledProgram
from pillion.errors import PillionError
from pillion.host_io.progress import Advance
from pillion.ir.graph import Graph
from pillion.ir.types import Array, PerTensor, Value
from pillion.ops import Segment
from pillion.report.op_facts import OUTSIDE, expand_segments
from pillion.report.report_facts import HistogramFacts, QualityFacts, TensorQuality
from pillion.run.float_interface import as_type, graph_inputs, imported_name

BINS = 64
WIDEST_BITS = 16
"""Widest integers compared; wider ones are accumulators without a chosen scale."""
NO_DATA = "no data was given: --data or --calibrate, `data` in Python"


def measure_quality(
    subject: CompiledProgram, given: Sequence[Sequence[Array]], progress: Advance
) -> QualityFacts:
    """Runs the reference and the float model, if any, on samples, and compares them tensor by tensor."""
    if not given:
        return QualityFacts(0, False, (), (), NO_DATA)
    tallies = {value: _Tally(value, number) for number, value in _quantized_tensors(subject)}
    for done, sample in enumerate(given, 1):
        _tally_sample(subject, sample, tallies, done)
        progress(done, len(given))
    seen = [tally for tally in tallies.values() if tally.count]
    without = tuple(t.value.name for t in seen if not t.floats.any()) if subject.floats else ()
    return QualityFacts(
        len(given), subject.floats is not None, tuple(tally.facts() for tally in seen), without, ""
    )


def _quantized_tensors(subject: CompiledProgram) -> Iterator[tuple[int, Value]]:
    """Yields the quantized tensors with the numbers of their ops."""
    tensors = [(OUTSIDE, v) for v in subject.graph.sources]
    tensors += [(n, v) for n, placed in enumerate(expand_segments(subject)) for v in placed.op.results]
    for number, value in tensors:
        has_scale = isinstance(value.type.quant, PerTensor) and value.dtype.numpy.kind in "iu"
        if has_scale and value.dtype.size_bytes * 8 <= WIDEST_BITS:
            yield number, value


def _tally_sample(
    subject: CompiledProgram, sample: Sequence[Array], tallies: Mapping[Value, _Tally], number: int
) -> None:
    floats: Mapping[str, Array] = {}
    if subject.floats is not None:
        floats = subject.floats([x.astype(np.float32) for x in sample])
        inputs = graph_inputs(subject.graph, floats)
    else:
        inputs = [as_type(v, x) for v, x in zip(subject.graph.inputs, sample, strict=True)]
    if not all(np.isfinite(x).all() for x in sample):
        raise PillionError(
            f"sample {number} holds a value that is not finite",
            rule="samples are finite numbers",
            here="NaN or an infinity",
            help="look at how the data was made",
        )
    for value, integers in _reference_tensors(subject.graph, inputs):
        if value in tallies:
            real = floats.get(imported_name(value))
            fits = real is not None and real.shape == integers.shape
            tallies[value].add(integers, real if fits else None)


def _reference_tensors(graph: Graph, inputs: Sequence[Array]) -> Iterator[tuple[Value, Array]]:
    """Yields every tensor of a reference run, inside segments too."""
    values = graph.source_arrays(inputs)
    yield from values.items()
    left = {v: len(readers) for v, readers in graph.users.items()}
    for op in graph.ops:
        if isinstance(op, Segment):
            inside = dict(_reference_tensors(op.body, op.operand_arrays(values)))
            yield from inside.items()
            results = op.by_result(tuple(inside[v] for v in op.body.outputs))
        else:
            results = op.compute(graph.arithmetic, values)
        values |= results
        yield from results.items()
        for value in dict.fromkeys(op.activations):  # values without further readers need not be kept
            left[value] -= 1
            if not left[value]:
                del values[value]


@dataclass
class _Tally:
    """Sums over the samples of one tensor."""

    value: Value
    op: int
    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    beyond: int = 0
    compared: int = 0
    largest: float = 0.0
    levels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    floats: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS + 2, np.int64))

    def add(self, integers: Array, real: Array | None) -> None:
        low, high = self.value.dtype.bounds
        levels = integers.ravel().astype(np.int64) - low
        counts = np.bincount(levels, minlength=high - low + 1)
        self.levels = counts if not self.count else self.levels + counts
        self.count += integers.size
        if real is not None:
            self._accumulate_errors(levels, real.ravel().astype(np.float64))

    def _accumulate_errors(self, levels: NDArray[np.int64], real: NDArray[np.float64]) -> None:
        low, high = self.value.dtype.bounds
        is_finite = np.isfinite(real)  # a mask of minus infinity has no error that counts
        real, levels = real[is_finite], levels[is_finite]
        exact_levels = real / self.value.scale + (self.value.zero_point - low)
        error = np.abs(levels - exact_levels) * self.value.scale
        self.signal += float(np.square(real).sum())
        self.noise += float(np.square(error).sum())
        self.largest = max(self.largest, float(error.max(initial=0.0)))
        self.beyond += int(((exact_levels < -0.5) | (exact_levels > high - low + 0.5)).sum())
        self.compared += real.size
        bins = np.floor((exact_levels + 0.5) * BINS / (high - low + 1)).clip(-1, BINS).astype(np.int64) + 1
        self.floats += np.bincount(bins, minlength=BINS + 2)

    def facts(self) -> TensorQuality:
        """Returns the statistics."""
        low, high = self.value.dtype.bounds
        scale, zero_point = self.value.scale, self.value.zero_point
        levels = self.levels.reshape(BINS, -1).sum(1)
        has_ratio = bool(self.compared and self.signal > 0 and self.noise > 0)
        return TensorQuality(
            tensor=self.value.name,
            op=self.op,
            elements=self.count,
            signal_to_noise_db=10 * math.log10(self.signal / self.noise) if has_ratio else None,
            saturated=self.beyond / self.compared if self.compared else None,
            at_bounds=int(self.levels[0] + self.levels[-1]) / self.count,
            levels_used=int(np.count_nonzero(self.levels)),
            largest_error=self.largest if self.compared else None,
            histogram=HistogramFacts(
                (low - 0.5 - zero_point) * scale,
                (high + 0.5 - zero_point) * scale,
                (0, *levels.tolist(), 0),
                tuple(self.floats.tolist()) if self.compared else (),
            ),
        )
