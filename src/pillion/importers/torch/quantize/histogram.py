# SPDX-License-Identifier: Apache-2.0
"""Ranges that leave out rare values: those outside are cut off, and all others have finer steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from pillion.importers.torch.train.ranges import SYMMETRIC, Range
from pillion.outside.threads import one_thread

BINS = 4096
"""Of a histogram: 16 and more for each step of int8."""
KEPT = 0.9999
"""The share of values that percentile ranges hold; half of what is left out lies on each side."""
SHRUNKEN = torch.linspace(1.0, 0.2, 65, dtype=torch.float64)
"""The parts of a range that are tried, side by side."""
ROUNDS = 3
MUCH_LESS = 5 / 6
"""The part of the squared error, 0.8 dB less, that is worth cutting off the largest values: these often decide an answer. (Of the zoo and the
examples, measured with 0.25 to 3 dB, none loses with 0.8; with 0.5 ResNet-8 loses 2 dB.)"""
ENOUGH = 4096
"""Values without which a least error is luck: 16 for each level."""


class CountedRange(Range):
    """An observer of the range that also counts how often values occur, in bins of one width around zero; few of them it keeps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.counts = torch.zeros(BINS, dtype=torch.float64)
        self.reach = 0.0
        self.kept: list[Tensor] | None = []
        """What was seen in each call; None where that is more than a few numbers."""

    def forward(self, x_orig: Tensor) -> Tensor:
        """Counts the values, and gives the tensor back as it is."""
        x = x_orig.detach().float()
        largest = float(x.abs().max()) if x.numel() else 0.0
        self._keep(x)
        if math.isfinite(largest) and (largest > 0 or self.reach > 0):
            self._widen(largest)
            self.counts += torch.histc(x, BINS, -self.reach, self.reach).double()
        given: Tensor = super().forward(x_orig)  # type: ignore[no-untyped-call]  # of torchao
        return given

    def _keep(self, x: Tensor) -> None:
        if self.kept is not None:
            self.kept.append(x.flatten().clone())
            if sum(map(len, self.kept)) >= ENOUGH:
                self.kept = None

    def _widen(self, largest: float) -> None:
        """Doubles the width of the bins until they reach far enough: pairs of them become one."""
        if self.reach == 0:
            self.reach = 2.0 ** math.ceil(math.log2(largest))
        while self.reach < largest:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = torch.nn.functional.pad(pairs, (BINS // 4, BINS // 4))
            self.reach *= 2

    @property
    def centers(self) -> Tensor:
        """The numbers in the middle of the bins."""
        width = 2 * self.reach / BINS
        return (torch.arange(BINS, dtype=torch.float64) + 0.5) * width - self.reach


@one_thread()
def settle_ranges(prepared: GraphModule, ranges: str) -> None:
    """Narrows the ranges that calibration has seen: to hold `percentile` of the values, for the least squared error (`mse`), or only where
    that is much less (`auto`)."""
    if ranges not in SETTLED:
        return
    for part in prepared.modules():
        if isinstance(part, CountedRange) and part.reach > 0:
            low, high = min(0.0, float(part.min_val)), max(0.0, float(part.max_val))
            narrowed = SETTLED[ranges](part, low, high)
            if narrowed != (low, high):
                part.min_val.fill_(narrowed[0])
                part.max_val.fill_(narrowed[1])


def _percentile(observer: CountedRange, low: float, high: float) -> tuple[float, float]:
    shares = observer.counts.cumsum(0) / observer.counts.sum()
    rare, width = (1 - KEPT) / 2, 2 * observer.reach / BINS
    first = int(torch.searchsorted(shares, rare))
    last = int(torch.searchsorted(shares, 1 - rare))
    edges = observer.centers[[min(first, BINS - 1), min(last, BINS - 1)]]
    return max(low, min(0.0, float(edges[0]) - width / 2)), min(high, max(0.0, float(edges[1]) + width / 2))


def _least_error(observer: CountedRange, low: float, high: float) -> tuple[float, float]:
    """One end after the other is brought to where the error is least."""
    for _ in range(ROUNDS):
        before = low, high
        highs = high * SHRUNKEN if high > 0 else torch.zeros(1, dtype=torch.float64)
        high = float(highs[_errors(observer, torch.full_like(highs, low), highs).argmin()])
        lows = low * SHRUNKEN if low < 0 else torch.zeros(1, dtype=torch.float64)
        low = float(lows[_errors(observer, lows, torch.full_like(lows, high)).argmin()])
        if (low, high) == before:
            break
    return low, high


def _much_less_error(observer: CountedRange, low: float, high: float) -> tuple[float, float]:
    """The least error, if that is much less than the error of the whole range."""
    if float(observer.counts.sum()) < ENOUGH:
        return low, high
    least = _least_error(observer, low, high)
    lows, highs = torch.tensor([[low, least[0]], [high, least[1]]], dtype=torch.float64)
    whole, narrowed = _errors(observer, lows, highs).tolist()
    return least if narrowed <= MUCH_LESS * whole else (low, high)


def _errors(observer: CountedRange, lows: Tensor, highs: Tensor) -> Tensor:
    """The squared error of all counted values for each of some ranges."""
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


SETTLED: dict[str, Callable[[CountedRange, float, float], tuple[float, float]]] = {
    "percentile": _percentile,
    "mse": _least_error,
    "auto": _much_less_error,
}
"""How a range is narrowed, by the name of the way."""
