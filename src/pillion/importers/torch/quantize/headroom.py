# SPDX-License-Identifier: Apache-2.0
"""Widens ranges of computed tensors with few values beyond the calibrated ones: few values rarely contain the extremes
of further samples, and nothing corrects clipping."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.loop_nodes import has_loops
from pillion.importers.torch.observers import (
    calls_of_observers,
    has_finite_range,
    observers_of_outputs,
    widen_range,
)
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.ir.numerics import INT8_STEPS

FEWEST = 4
"""Minimum samples for an estimate of the extremes of others."""
NEARLY = 4.0
"""Tolerated ratio to the least error, in favour of less headroom: few samples estimate extremes badly."""
CANDIDATES = torch.linspace(0.0, 0.5, 41, dtype=torch.float64)
"""Candidate headroom of one side, as parts of the observed span."""
MOST = 0.3
"""Maximum headroom of one side: both sides cost 4.1 dB of the outputs' rounding at most."""


@one_thread()
def add_headroom(prepared: GraphModule) -> None:
    """Widens the ranges of computed tensors with few values, for the extremes expected of other samples. Skips models
    with loops, whose outputs are states."""
    if has_loops(prepared.graph):
        return
    outputs = observers_of_outputs(prepared)
    for observer, calls in calls_of_observers(prepared).items():
        is_computed = observer in outputs or all(_reads_result(call) for call in calls)
        if is_computed and isinstance(observer, HistogramRange) and has_finite_range(observer):
            samples = values_by_sample(observer, len(calls))
            if len(samples) >= FEWEST:
                widen_range(observer, *map(torch.tensor, range_with_headroom(samples)))


def _reads_result(call: Node) -> bool:
    """Whether an observer call reads the result of an op, not an input or a constant."""
    return all(source.op == "call_function" for source in call.all_input_nodes)


def values_by_sample(observer: HistogramRange, calls: int) -> list[Tensor]:
    """Returns the observed values of each sample, for an observer with so many calls per sample; empty if too many
    values were seen."""
    batches = observer.kept or []
    if len(batches) % calls:
        return []
    return [torch.cat(batches[first : first + calls]).double() for first in range(0, len(batches), calls)]


def range_with_headroom(samples: list[Tensor]) -> tuple[float, float]:
    """Returns the smallest range with nearly the least expected squared error of a further sample: clipping and
    rounding. A side without observed values stays at zero."""
    lows, highs = (torch.stack([f(s) for s in samples]) for f in (torch.min, torch.max))
    low, high = float(lows.min().clamp(max=0)), float(highs.max().clamp(min=0))
    span = high - low
    rooms = span * CANDIDATES
    clipping = [
        expected_clipping(_gumbel_scale(extremes), len(extremes), rooms)
        if end
        else torch.where(CANDIDATES > 0, torch.inf, 0.0)
        for extremes, end in ((lows, low), (highs, high))
    ]
    widths = span + rooms[:, None] + rooms
    errors = clipping[0][:, None] + clipping[1] + len(samples[0]) * (widths / INT8_STEPS).square() / 12
    allowed = torch.where(errors <= NEARLY * errors.min(), widths, torch.inf)
    smallest = torch.where(allowed <= allowed.min() * (1 + 1e-9), errors, torch.inf)
    below, above = divmod(int(smallest.argmin()), len(CANDIDATES))
    rooms = rooms.clamp(max=MOST * span)
    return low - float(rooms[below]), high + float(rooms[above])


def _gumbel_scale(extremes: Tensor) -> float:
    """Returns the scale of a Gumbel distribution with the standard deviation of the extremes."""
    return float(extremes.std()) * math.sqrt(6) / math.pi


def expected_clipping(scale: float, samples: int, rooms: Tensor) -> Tensor:
    """Returns the expected squared clipping error of one further sample, for each room beyond the extremes of n
    samples. One of n + 1 samples exceeds the n others, by an exponentially distributed amount with mean `scale`."""
    return 2 * scale**2 * torch.exp(-rooms / scale) / (samples + 1) if scale else torch.zeros_like(rooms)
