# SPDX-License-Identifier: Apache-2.0
"""Means and sums that are nearly nothing: the mean of what is centred already is 0 in float32 but for rounding. Its range would be
millions of times smaller than a step of its operand, and no sum of int8 could follow it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten, value_of

LEAST = 2.0**-16
"""The least range of a mean, as a part of its operand's: about what the operand's rounding makes of a mean of thousands of elements."""
REDUCTIONS = (aten.mean.dim, aten.sum.dim_IntList)


def widen_least_ranges(prepared: GraphModule) -> None:
    """Widens ranges of means and sums that are smaller than what their operands' rounding leaves of them."""
    for node in prepared.graph.find_nodes(op="call_module"):
        source: Any = node.args[0]
        if source.target in REDUCTIONS:
            observer, operand = _observer(prepared, node), _observer(prepared, source.args[0])
            if observer is not None and operand is not None:
                _widen(observer, LEAST * _summed(source) * float(operand.max_val - operand.min_val))


def _observer(prepared: GraphModule, node: Node) -> Any:
    """What has observed the range of a whole tensor."""
    if node.op != "call_module":
        return None
    observer: Any = prepared.get_submodule(str(node.target))
    observer = getattr(observer, "activation_post_process", observer)
    held = getattr(observer, "min_val", None)
    return observer if isinstance(held, torch.Tensor) and held.numel() == 1 else None


def _summed(node: Node) -> float:
    """How many elements of the operand a sum has; 1 of a mean."""
    operand: Any = node.args[0].args[0]  # type: ignore[union-attr]  # an observer of a tensor
    is_sum = node.target is aten.sum.dim_IntList
    return value_of(operand).numel() / value_of(node).numel() if is_sum else 1.0


def _widen(observer: Any, least: float) -> None:
    """Both ends away from 0, where the range is less than it may be; of one that is nothing at all, the usual step is large enough."""
    width = float(observer.max_val.clamp(min=0) - observer.min_val.clamp(max=0))
    if 0 < width < least:
        observer.min_val.copy_(torch.minimum(observer.min_val, torch.full_like(observer.min_val, -least / 2)))
        observer.max_val.copy_(torch.maximum(observer.max_val, torch.full_like(observer.max_val, least / 2)))
