# SPDX-License-Identifier: Apache-2.0
"""Ranges that clip rare values in favour of finer steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.observers import range_of, set_range
from pillion.importers.torch.train.trained_ranges import SYMMETRIC, MinMaxRangeObserver

BINS = 4096
"""Bins of a histogram: at least 16 per int8 step."""
KEPT = 0.9999
"""Share of values inside a percentile range; half of the rest lies on each side."""
CANDIDATES = torch.linspace(1.0, 0.2, 65, dtype=torch.float64)
"""Candidate fractions of a range's end."""
ROUNDS = 3
MUCH_LESS = 5 / 6
"""Ratio of squared errors (0.8 dB) below which clipping is worthwhile: the largest values often decide an answer.
(Measured with 0.25 to 3 dB on the zoo and the examples: none loses with 0.8; with 0.5, ResNet-8 loses 2 dB.)"""
ENOUGH = 4096
"""Minimum values for a reliable least error: 16 per level."""


class HistogramRange(MinMaxRangeObserver):
    """Observes the range and a histogram symmetric around zero; keeps the values while they are few."""

    may_clip = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.counts = torch.zeros(BINS, dtype=torch.float64)
        self.reach = 0.0
        self.kept: list[Tensor] | None = []
        """Values of each call; None if they are too many."""

    def forward(self, x_orig: Tensor) -> Tensor:
        """Counts the values and returns the tensor unchanged."""
        x = x_orig.detach().float()
        largest = float(x.abs().max()) if x.numel() else 0.0
        self._keep(x)
        if math.isfinite(largest) and (largest > 0 or self.reach > 0):
            self._widen_histogram(largest)
            self.counts += torch.histc(x, BINS, -self.reach, self.reach).double()
        result: Tensor = super().forward(x_orig)  # type: ignore[no-untyped-call]  # of torchao
        return result

    def _keep(self, x: Tensor) -> None:
        if self.kept is not None:
            self.kept.append(x.flatten().clone())
            if sum(map(len, self.kept)) >= ENOUGH:
                self.kept = None

    def _widen_histogram(self, largest: float) -> None:
        """Doubles the bin width until the histogram covers `largest`."""
        if self.reach == 0:
            self.reach = 2.0 ** math.ceil(math.log2(largest))
        while self.reach < largest:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = torch.nn.functional.pad(pairs, (BINS // 4, BINS // 4))
            self.reach *= 2

    @property
    def centers(self) -> Tensor:
        """Centres of the bins."""
        width = 2 * self.reach / BINS
        return (torch.arange(BINS, dtype=torch.float64) + 0.5) * width - self.reach


@one_thread()
def choose_ranges(prepared: GraphModule, ranges: str) -> None:
    """Narrows calibrated ranges: to a `percentile`, to the least squared error (`mse`), or only if that is much
    less (`auto`)."""
    if ranges not in METHODS:
        return
    for part in prepared.modules():
        if isinstance(part, HistogramRange) and part.may_clip and part.reach > 0:
            low, high = range_of(part)
            narrowed = METHODS[ranges](part, low, high)
            if narrowed != (low, high):
                set_range(part, *narrowed)


def _percentile_range(observer: HistogramRange, low: float, high: float) -> tuple[float, float]:
    shares = observer.counts.cumsum(0) / observer.counts.sum()
    rare, width = (1 - KEPT) / 2, 2 * observer.reach / BINS
    first = int(torch.searchsorted(shares, rare))
    last = int(torch.searchsorted(shares, 1 - rare))
    edges = observer.centers[[min(first, BINS - 1), min(last, BINS - 1)]]
    return max(low, min(0.0, float(edges[0]) - width / 2)), min(high, max(0.0, float(edges[1]) + width / 2))


def _least_error(observer: HistogramRange, low: float, high: float) -> tuple[float, float]:
    """Returns the range of least squared error, found by alternating between its ends."""
    for _ in range(ROUNDS):
        before = low, high
        highs = high * CANDIDATES if high > 0 else torch.zeros(1, dtype=torch.float64)
        high = float(highs[_squared_errors(observer, torch.full_like(highs, low), highs).argmin()])
        lows = low * CANDIDATES if low < 0 else torch.zeros(1, dtype=torch.float64)
        low = float(lows[_squared_errors(observer, lows, torch.full_like(lows, high)).argmin()])
        if (low, high) == before:
            break
    return low, high


def _range_if_much_better(observer: HistogramRange, low: float, high: float) -> tuple[float, float]:
    """Returns the range of least error if it is much better than the whole range."""
    if float(observer.counts.sum()) < ENOUGH:
        return low, high
    least = _least_error(observer, low, high)
    lows, highs = torch.tensor([[low, least[0]], [high, least[1]]], dtype=torch.float64)
    full, narrowed = _squared_errors(observer, lows, highs).tolist()
    return least if narrowed <= MUCH_LESS * full else (low, high)


def _squared_errors(observer: HistogramRange, lows: Tensor, highs: Tensor) -> Tensor:
    """Returns the squared error of all counted values for each candidate range."""
    seen = observer.counts > 0
    x, counts = observer.centers[seen], observer.counts[seen]
    least, most = float(observer.quant_min), float(observer.quant_max)
    if observer.qscheme in SYMMETRIC:
        scales = torch.maximum(-lows, highs) / most
        zeros = torch.zeros_like(scales)
    else:
        scales = (highs - lows) / (most - least)
        zeros = least - torch.round(lows / scales)
    scales, zeros = scales.clamp(min=1e-300)[:, None], zeros[:, None]
    levels = (torch.round(x / scales) + zeros).clamp(least, most)
    return (((levels - zeros) * scales - x) ** 2 * counts).sum(1)


METHODS: dict[str, Callable[[HistogramRange, float, float], tuple[float, float]]] = {
    "percentile": _percentile_range,
    "mse": _least_error,
    "auto": _range_if_much_better,
}
"""Range choices by name."""
