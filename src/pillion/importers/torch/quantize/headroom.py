# SPDX-License-Identifier: Apache-2.0
"""Widens output ranges of models with few outputs beyond the calibrated values, because samples rarely contain the
extremes and nothing after an output corrects clipping."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule

from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.loop_nodes import BEGINS
from pillion.importers.torch.observers import (
    calls_of_observers,
    has_finite_range,
    observers_of_outputs,
    widen_range,
)
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.ir.numerics import INT8_STEPS

FEWEST = 4
"""Minimum samples for leave-one-out estimates."""
NEARLY = 2.0
"""Tolerated ratio to the least error, in favour of less headroom: leaving a sample out overestimates errors."""
CANDIDATES = torch.linspace(0.0, 1.0, 21, dtype=torch.float64)
"""Candidate headroom on either side, as parts of the observed span."""


@one_thread()
def add_headroom(prepared: GraphModule) -> None:
    """Widens output ranges by the headroom that would have been best for each sample, had the others set the
    range. Skips models with loops, whose outputs are states."""
    if any(node.target in BEGINS for node in prepared.graph.nodes):
        return
    outputs = observers_of_outputs(prepared)
    for observer, calls in calls_of_observers(prepared).items():
        if observer in outputs and isinstance(observer, HistogramRange) and has_finite_range(observer):
            samples = values_by_sample(observer, len(calls))
            if len(samples) >= FEWEST:
                low, high = (float(f(torch.cat(samples))) for f in (torch.min, torch.max))
                part = torch.tensor(best_headroom(samples))
                widen_range(observer, *_ranges_with_headroom(low, high, part))


def values_by_sample(observer: HistogramRange, calls: int) -> list[Tensor]:
    """Returns the observed values of each sample, for an observer with so many calls per sample; empty if too many
    values were seen."""
    batches = observer.kept or []
    if len(batches) % calls:
        return []
    return [torch.cat(batches[first : first + calls]).double() for first in range(0, len(batches), calls)]


def best_headroom(samples: list[Tensor]) -> float:
    """Returns the headroom, as a part of the span, with nearly the least squared clipping and rounding error in a
    leave-one-out test."""
    lows, highs = (torch.stack([f(s) for s in samples]) for f in (torch.min, torch.max))
    errors = torch.zeros_like(CANDIDATES)
    for number, sample in enumerate(samples):
        others = torch.arange(len(samples)) != number
        low, high = _ranges_with_headroom(float(lows[others].min()), float(highs[others].max()), CANDIDATES)
        clipped = (sample[:, None] - sample[:, None].clamp(low, high)).square().sum(0)
        errors += clipped + len(sample) * ((high - low) / INT8_STEPS).square() / 12
    return float(CANDIDATES[(errors <= NEARLY * errors.min()).nonzero()[0, 0]])


def _ranges_with_headroom(low: float, high: float, fractions: Tensor) -> tuple[Tensor, Tensor]:
    """Range with each headroom added; a side without observed values stays at zero."""
    spans = (high - low) * fractions
    lows = (low - spans if low < 0 else 0 * fractions).clamp(max=0.0)
    highs = (high + spans if high > 0 else 0 * fractions).clamp(min=0.0)
    return lows, highs
