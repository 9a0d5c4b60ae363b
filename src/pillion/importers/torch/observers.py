# SPDX-License-Identifier: Apache-2.0
"""The observers of a prepared graph, and the ranges that they hold."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node


def observer_of(prepared: GraphModule, node: object) -> Any:
    """Returns the observer that a node calls, also inside a fake quantization; None for other nodes."""
    if not isinstance(node, Node) or node.op != "call_module":
        return None
    observer = prepared.get_submodule(str(node.target))
    return getattr(observer, "activation_post_process", observer)


def calls_of_observers(prepared: GraphModule) -> dict[Any, list[Node]]:
    """Returns the calls of each observer, in order."""
    calls: dict[Any, list[Node]] = {}
    for node in prepared.graph.find_nodes(op="call_module"):
        calls.setdefault(observer_of(prepared, node), []).append(node)
    return calls


def observers_of_outputs(prepared: GraphModule) -> set[Any]:
    """Returns the observers of a graph's outputs."""
    return {observer_of(prepared, node) for node in prepared.graph.output_node().all_input_nodes}


def is_per_tensor(observer: Any) -> bool:
    """Whether an observer holds one range."""
    least = getattr(observer, "min_val", None)
    return isinstance(least, torch.Tensor) and least.numel() == 1


def has_finite_range(observer: Any) -> bool:
    """Whether the observed range is finite; fixed ranges are."""
    low, high = (getattr(observer, name, torch.zeros(())) for name in ("min_val", "max_val"))
    return bool(torch.isfinite(high - low).all())


def range_of(observer: Any) -> tuple[float, float]:
    """Returns the ends of an observer's range, which contains zero."""
    return min(0.0, float(observer.min_val)), max(0.0, float(observer.max_val))


def set_range(observer: Any, low: float, high: float) -> None:
    """Sets the ends of an observer's range."""
    observer.min_val.fill_(low)
    observer.max_val.fill_(high)


def widen_range(observer: Any, low: Any, high: Any) -> None:
    """Makes an observer's range contain two values."""
    observer.min_val.clamp_(max=float(low))
    observer.max_val.clamp_(min=float(high))
