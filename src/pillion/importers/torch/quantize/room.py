# SPDX-License-Identifier: Apache-2.0
"""Room beyond what calibration has seen, for outputs of few numbers. Ten scores of a hundred samples are a thousand numbers, and the next
sample's largest may well be larger than all of them; nothing behind an output makes good for what is cut off there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from pillion.importers.torch.loops import BEGINS
from pillion.importers.torch.quantize.finer import observer_of
from pillion.importers.torch.quantize.histogram import CountedRange
from pillion.ir.numerics import INT8_STEPS
from pillion.outside.threads import one_thread

FEWEST = 4
"""Samples without which there is nothing to be learned from leaving one out."""
NEARLY = 2.0
"""How much larger than the least error that of a smaller room may be, which costs fewer steps: one sample less than there are makes errors seem larger."""
ROOMS = torch.linspace(0.0, 1.0, 21, dtype=torch.float64)
"""What is tried on either side, as parts of the span of what was seen."""


@one_thread()
def give_room(prepared: GraphModule) -> None:
    """Widens the ranges of outputs by as much as would have been best for each sample, had the range been that of all others. Models with loops over
    time have none: what they answer is a state, whose steps matter in every step."""
    if any(node.target in BEGINS for node in prepared.graph.nodes):
        return
    calls: dict[Any, int] = {}
    for node in prepared.graph.find_nodes(op="call_module"):
        observer = observer_of(prepared, node)
        calls[observer] = calls.get(observer, 0) + 1
    outputs = {observer_of(prepared, node) for node in prepared.graph.output_node().all_input_nodes}
    for observer, count in calls.items():
        if observer in outputs and isinstance(observer, CountedRange):
            samples = by_sample(observer, count)
            if len(samples) >= FEWEST:
                _widen(observer, samples, best_room(samples))


def by_sample(observer: CountedRange, calls: int) -> list[Tensor]:
    """Gives the numbers that were seen of each sample, by an observer that is called so often for one; none where they were too many to be
    kept."""
    kept = observer.kept or []
    if len(kept) % calls:
        return []
    return [torch.cat(kept[first : first + calls]).double() for first in range(0, len(kept), calls)]


def best_room(samples: list[Tensor]) -> float:
    """Gives the room, as a part of the span of all numbers, that leaves nearly the least squared error of clipping and rounding where each sample is judged by
    a range that comes from the others."""
    lows, highs = (torch.stack([f(s) for s in samples]) for f in (torch.min, torch.max))
    errors = torch.zeros_like(ROOMS)
    for number, sample in enumerate(samples):
        others = torch.arange(len(samples)) != number
        low, high = _ends(float(lows[others].min()), float(highs[others].max()), ROOMS)
        clipped = (sample[:, None] - sample[:, None].clamp(low, high)).square().sum(0)
        errors += clipped + len(sample) * ((high - low) / INT8_STEPS).square() / 12
    return float(ROOMS[(errors <= NEARLY * errors.min()).nonzero()[0, 0]])


def _ends(low: float, high: float, rooms: Tensor) -> tuple[Tensor, Tensor]:
    """A range with each of some rooms on both sides; what was never below zero stays there, and so above. Zero is in every range."""
    spans = (high - low) * rooms
    lows = (low - spans if low < 0 else 0 * rooms).clamp(max=0.0)
    highs = (high + spans if high > 0 else 0 * rooms).clamp(min=0.0)
    return lows, highs


def _widen(observer: CountedRange, samples: list[Tensor], room: float) -> None:
    numbers = torch.cat(samples)
    low, high = _ends(float(numbers.min()), float(numbers.max()), torch.tensor(room))
    observer.min_val.copy_(torch.minimum(observer.min_val, low.to(observer.min_val)))
    observer.max_val.copy_(torch.maximum(observer.max_val, high.to(observer.max_val)))
