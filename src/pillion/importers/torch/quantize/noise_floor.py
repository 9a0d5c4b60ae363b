# SPDX-License-Identifier: Apache-2.0
"""Sets a least range for means and sums: the mean of centred data is zero up to float32 rounding, and no int8 sum
could follow so small a range."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten, fake_result
from pillion.importers.torch.observers import is_per_tensor, observer_of, range_of, widen_range

LEAST = 2.0**-16
"""Least range of a mean relative to its operand's: about the rounding noise of a mean of thousands of elements."""
REDUCTIONS = (aten.mean.dim, aten.sum.dim_IntList)


def raise_noise_floor(prepared: GraphModule) -> None:
    """Widens ranges of means and sums that are below their operands' rounding noise."""
    for node in prepared.graph.find_nodes(op="call_module"):
        source: Any = node.args[0]
        if source.target in REDUCTIONS:
            observer, operand = observer_of(prepared, node), observer_of(prepared, source.args[0])
            if is_per_tensor(observer) and is_per_tensor(operand):
                least = LEAST * _elements_per_sum(source) * float(operand.max_val - operand.min_val)
                low, high = range_of(observer)
                if 0 < high - low < least:  # an empty range has a default scale
                    widen_range(observer, -least / 2, least / 2)


def _elements_per_sum(node: Node) -> float:
    """Elements per sum; 1 for a mean."""
    operand: Any = node.args[0].args[0]  # type: ignore[union-attr]  # an observer of a tensor
    is_sum = node.target is aten.sum.dim_IntList
    return fake_result(operand).numel() / fake_result(node).numel() if is_sum else 1.0
