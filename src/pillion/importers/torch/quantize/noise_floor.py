# SPDX-License-Identifier: Apache-2.0
"""Sets a least range for means and sums: the mean of centred data is zero up to float32 rounding, and no int8 sum
could follow so small a range."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten, value_of

LEAST = 2.0**-16
"""Least range of a mean relative to its operand's: about the rounding noise of a mean of thousands of elements."""
REDUCTIONS = (aten.mean.dim, aten.sum.dim_IntList)


def raise_noise_floor(prepared: GraphModule) -> None:
    """Widens ranges of means and sums that are below their operands' rounding noise."""
    for node in prepared.graph.find_nodes(op="call_module"):
        source: Any = node.args[0]
        if source.target in REDUCTIONS:
            observer, operand = _observer(prepared, node), _observer(prepared, source.args[0])
            if observer is not None and operand is not None:
                _widen(observer, LEAST * _summed(source) * float(operand.max_val - operand.min_val))


def _observer(prepared: GraphModule, node: Node) -> Any:
    """Per-tensor observer of a node; None if there is none."""
    if node.op != "call_module":
        return None
    observer: Any = prepared.get_submodule(str(node.target))
    observer = getattr(observer, "activation_post_process", observer)
    held = getattr(observer, "min_val", None)
    return observer if isinstance(held, torch.Tensor) and held.numel() == 1 else None


def _summed(node: Node) -> float:
    """Elements per sum; 1 for a mean."""
    operand: Any = node.args[0].args[0]  # type: ignore[union-attr]  # an observer of a tensor
    is_sum = node.target is aten.sum.dim_IntList
    return value_of(operand).numel() / value_of(node).numel() if is_sum else 1.0


def _widen(observer: Any, least: float) -> None:
    """Widens both ends if the range is below `least`; an empty range has a default scale."""
    width = float(observer.max_val.clamp(min=0) - observer.min_val.clamp(max=0))
    if 0 < width < least:
        observer.min_val.copy_(torch.minimum(observer.min_val, torch.full_like(observer.min_val, -least / 2)))
        observer.max_val.copy_(torch.maximum(observer.max_val, torch.full_like(observer.max_val, least / 2)))
