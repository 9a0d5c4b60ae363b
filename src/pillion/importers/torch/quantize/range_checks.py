# SPDX-License-Identifier: Apache-2.0
"""Checks calibrated ranges: all-zero or huge data give meaningless programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import PillionError, warn
from pillion.importers.torch.fx_nodes import fake_result, is_constant, source_line
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.train.trained_ranges import SMALLEST_SCALE

LARGEST = 2.0**24
"""Largest useful value: float32 no longer resolves integers."""
SMALLEST = 128 * SMALLEST_SCALE
"""Smallest useful range: below it, some of the 256 levels are unused."""
SHOWN = 3
"""Maximum tensors named in one warning."""


def require_finite(batch: Sequence[Tensor], number: int) -> None:
    """Raises if a calibration sample is not finite."""
    for index, tensor in enumerate(batch):
        broken = ~torch.isfinite(tensor)
        if bool(broken.any()):
            raise PillionError(
                f"sample {number} of the calibration data holds what is not a number",
                rule="calibration data are finite",
                here=f"{float(tensor[broken][0])} in {int(broken.sum())} of {tensor.numel()} places of input {index}",
                help="leave such samples out, or repair what makes them",
            )


def warn_of_ranges(prepared: GraphModule) -> None:
    """Warns of inputs with useless ranges, or else of other tensors with useless ranges."""
    useless = list(_useless_ranges(prepared))
    inputs = [text for node, text in useless if node.op == "placeholder"]
    if useless:
        named = inputs or [text for _, text in useless]
        more = f", and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        advice = (
            "calibrate with data like those that the model will see"
            if inputs
            else "calibrate with other data (layers that begin with zeros: with windows of several steps, or with the state in "
            "a buffer, docs/guide/state.md), unless the model is made so"
        )
        text = f"calibration saw {'; '.join(named[:SHOWN])}{more}: {advice}"
        warn(text)


def _useless_ranges(prepared: GraphModule) -> Iterator[tuple[Node, str]]:
    seen: set[Node] = set()
    for node in prepared.graph.find_nodes(op="call_module"):
        source: Any = node.args[0]
        observer = observer_of(prepared, node)
        if source in seen or is_constant(source) or not hasattr(observer, "min_val"):
            continue
        seen.add(source)
        text = _describe_range_problem(float(observer.min_val), float(observer.max_val), source)
        if text:
            yield source, text


def _describe_range_problem(low: float, high: float, node: Node) -> str:
    furthest = max(abs(low), abs(high))
    words = f"in {'input ' if node.op == 'placeholder' else ''}`{node.name}`"
    line = source_line(node)
    where = f"{words} ({line})" if line else words
    if furthest == 0:
        return f"nothing but zeros {where}"
    if furthest < SMALLEST:
        return f"nothing beyond {furthest:.3g} {where}, too small for int8"
    if furthest > LARGEST:
        return (
            f"values from {low:.3g} to {high:.3g} {where}, in steps of {(high - low) / 255 or furthest:.3g}"
        )
    if low == high and node.op == "placeholder" and fake_result(node).numel() > 1:
        return f"nothing but {low:.3g} {where}"
    return ""
