# SPDX-License-Identifier: Apache-2.0
"""Simulates the clipping that further samples are expected to meet in 8-bit tensors. The judging samples rarely
contain such extremes, and 16-bit tensors have room for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from pillion.importers.torch.loop_nodes import run_with_loops
from pillion.importers.torch.observers import is_per_tensor
from pillion.importers.torch.quantize.headroom import FEWEST, expected_clipping

Levels = tuple[int, int]


class _Extremes(nn.Module):
    """Notes the least and the largest value of each sample, negated and as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: list[Tensor] = []
        self.current = torch.zeros(2, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Notes the extremes and returns the tensor unchanged."""
        if x.is_floating_point() and x.numel():
            self.current = torch.maximum(self.current, torch.stack([-x.min(), x.max()]).double())
        return x

    def end_sample(self) -> None:
        """Begins the next sample."""
        self.samples.append(self.current)
        self.current = torch.zeros(2, dtype=torch.float64)


def clipped_levels(
    observing: GraphModule, observers: Iterable[Any], samples: Sequence[tuple[Tensor, ...]]
) -> dict[Any, Levels]:
    """Returns, for each observer with a range, narrower levels: with them the largest known sample loses by clipping
    as much as further samples are expected to lose. `observing` is a copy whose observers may be exchanged."""
    ranged = [observer for observer in observers if is_per_tensor(observer)]
    if len(samples) < FEWEST:
        return {}
    notes = {observer: _Extremes() for observer in ranged}
    for name, child in list(observing.named_modules(remove_duplicate=False)):
        is_called = isinstance(observing.get_submodule(name.rpartition(".")[0]), GraphModule)
        if child in notes and is_called:  # observers of 16 bits have others
            observing.set_submodule(name, notes[child])
    with torch.no_grad():
        for sample in samples:
            run_with_loops(observing, *sample)
            for note in notes.values():
                note.end_sample()
    return {observer: _levels(observer, torch.stack(note.samples)) for observer, note in notes.items()}


def _levels(observer: Any, extremes: Tensor) -> Levels:
    """Returns the levels of an observer that are left, given the extremes of each sample."""
    scale, zero_point = (float(value) for value in observer.calculate_qparams())
    low, high = (
        _end(ends, abs(level - zero_point) * scale) / scale
        for ends, level in zip(extremes.T, (observer.quant_min, observer.quant_max), strict=True)
    )
    return math.floor(zero_point - low), math.ceil(zero_point + high)


def _end(ends: Tensor, end: float) -> float:
    """Returns the narrowed end of a range that reaches to `end`: the largest sample alone loses by clipping there as
    much as the same number of further samples is expected to lose."""
    largest = float(ends.max())
    room = torch.tensor(max(end - largest, 0.0), dtype=torch.float64)
    excess = math.sqrt(len(ends) * float(expected_clipping(_tail_scale(ends), len(ends), room)))
    return max(min(end, largest) - excess, 0.0) if excess else end


def _tail_scale(ends: Tensor) -> float:
    """Returns by how much the largest ends exceed the next one, on average. Only the tail counts: the standard deviation of
    all ends would span loud and silent samples."""
    tail = math.ceil(math.sqrt(len(ends)))
    largest = ends.topk(tail + 1).values
    return float(largest[:tail].mean() - largest[tail])
