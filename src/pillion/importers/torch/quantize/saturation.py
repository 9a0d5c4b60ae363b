# SPDX-License-Identifier: Apache-2.0
"""Narrows ranges that only saturating functions read: below -3, a hard-swish is zero, so levels there are wasted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import is_constant
from pillion.importers.torch.observers import (
    calls_of_observers,
    has_finite_range,
    observer_of,
    range_of,
    set_range,
)
from pillion.importers.torch.rows.quantization import RULES

POINTS = 4097
"""Sampled points of a function over the range."""
LEVELS_BETWEEN = 253
"""Levels between the ends, of 256: functions that jump at an end need one more level beyond it, wherever the zero
point lies."""
TOLD_APART = 0.25
"""Fraction of a result's step below which two values count as equal."""


def clip_saturated_ranges(prepared: GraphModule) -> None:
    """Narrows observed ranges to where the reading functions change."""
    for observer, nodes in calls_of_observers(prepared).items():
        readers = [user for node in nodes for user in node.users if user not in nodes]
        if hasattr(observer, "min_val") and _is_read_by_functions_alone(nodes, readers):
            _narrow_range(prepared, observer, readers)


def _narrow_range(prepared: GraphModule, observer: Any, functions: Sequence[Node]) -> None:
    low, high = range_of(observer)
    if low < high:
        ranges = [_changing_range(prepared, function, low, high) for function in functions]
        first, last = min(0.0, *(first for first, _ in ranges)), max(0.0, *(last for _, last in ranges))
        step = (last - first) / LEVELS_BETWEEN
        if last > first:
            set_range(observer, max(low, first - step), min(high, last + step))


def _is_read_by_functions_alone(nodes: Sequence[Node], readers: Sequence[Node]) -> bool:
    rules = [RULES.get(reader.target) for reader in readers]
    computed = not any(is_constant(node.args[0]) for node in nodes)
    return bool(rules) and computed and all(rule is not None and rule.function for rule in rules)


def _changing_range(prepared: GraphModule, function: Node, low: float, high: float) -> tuple[float, float]:
    """Operands between which a function changes noticeably."""
    behind = (observer_of(prepared, user) for user in function.users)
    steps = (float(o.calculate_qparams()[0]) for o in behind if o is not None and has_finite_range(o))
    step = next(steps, None)
    x = torch.linspace(low, high, POINTS, dtype=torch.float64)
    y = function.target(x, *function.args[1:], **function.kwargs)  # type: ignore[operator]  # a call_function
    if step is None or not bool(torch.isfinite(y).all()):
        return low, high
    first, last = (_last_flat_index(side, TOLD_APART * step) for side in (y, y.flip(0)))
    return float(x[first]), float(x[POINTS - 1 - last])


def _last_flat_index(y: Tensor, told_apart: float) -> int:
    """Returns the index of the last point up to which the function is flat."""
    spread = y.cummax(0).values - y.cummin(0).values
    return int((spread <= told_apart).sum()) - 1
