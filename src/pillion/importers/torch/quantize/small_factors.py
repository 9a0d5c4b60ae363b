# SPDX-License-Identifier: Apache-2.0
"""Lowers the least scale of tiny constant factors with a huge other operand; otherwise they would become zero."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten, calls, constant_of
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.rows.quantization import RULES
from pillion.importers.torch.train.trained_ranges import SMALLEST_SCALE
from pillion.ir.numerics import INT8_STEPS

LEAST = 2.0**-100
"""Smallest scale of any factor; its product with another scale is still a float32 number."""
SPREAD = 2.0**-24
"""Smallest scale of a channel relative to the largest one's."""


def lower_factor_scales(prepared: GraphModule) -> None:
    """Lowers the least scale of constant factors whose products reach a step of the result."""
    for node in calls(prepared.graph):
        for factor, operand in _constant_factor_pairs(node):
            weights, x = observer_of(prepared, factor), observer_of(prepared, operand)
            if weights is None or x is None or constant_of(factor.args[0]) is None:
                continue
            largest = max(float(end.abs().max()) for end in (weights.min_val, weights.max_val))
            smallest = largest / weights.quant_max * SPREAD
            is_lost = 0 < largest < weights.quant_max * SMALLEST_SCALE
            if is_lost and largest * float(x.calculate_qparams()[0]) * INT8_STEPS >= _step_of_result(
                prepared, node
            ):
                weights.eps.fill_(max(smallest, LEAST))


def _constant_factor_pairs(node: Node) -> list[tuple[Any, Any]]:
    """Factors of a call that may be constant, each with its other operand."""
    rule = RULES.get(node.target)
    if node.target is aten.mul.Tensor:
        return [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
    return [] if rule is None or rule.weight is None else [(node.args[rule.weight], node.args[0])]


def _step_of_result(prepared: GraphModule, node: Node) -> float:
    """Returns the scale of a result, possibly behind a clamp; 0 if unknown."""
    while node.users:
        node = next(iter(node.users))
        observer = observer_of(prepared, node)
        if observer is not None:
            return float(observer.calculate_qparams()[0])
    return 0.0
