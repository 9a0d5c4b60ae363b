# SPDX-License-Identifier: Apache-2.0
"""Ranges of what only functions of one number read. Below -3 a hard-swish is zero, whatever it is given, and a GELU nearly so: levels that
tell such numbers apart are levels lost, and a number that is cut off at the end of its range gives the same answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import is_constant
from pillion.importers.torch.quantize.useful_ranges import has_finite_range
from pillion.importers.torch.rows.quantization import RULES

POINTS = 4097
"""At which a function is looked at, from one end of the range to the other."""
LEVELS_BETWEEN = 253
"""Of the 256, those that are left by one beyond each end: a function that jumps there has a level on either side, wherever the zero
point lies."""
TOLD_APART = 0.25
"""The part of a step of the result below which two numbers are one."""


def cut_flat_ends(prepared: GraphModule) -> None:
    """Narrows ranges, where they have been observed, to where the functions that read them are not flat."""
    observed: dict[Any, list[Node]] = {}
    for node in prepared.graph.find_nodes(op="call_module"):
        observer = _observer(prepared, node)
        if observer is not None:
            observed.setdefault(observer, []).append(node)
    for observer, nodes in observed.items():
        readers = [user for node in nodes for user in node.users if user not in nodes]
        if hasattr(observer, "min_val") and _is_read_by_functions_alone(nodes, readers):
            _narrow(prepared, observer, readers)


def _narrow(prepared: GraphModule, observer: Any, functions: Sequence[Node]) -> None:
    low, high = min(0.0, float(observer.min_val)), max(0.0, float(observer.max_val))
    if low < high:
        ends = [_ends(prepared, function, low, high) for function in functions]
        first, last = min(0.0, *(first for first, _ in ends)), max(0.0, *(last for _, last in ends))
        step = (last - first) / LEVELS_BETWEEN
        if last > first:
            observer.min_val.fill_(max(low, first - step))
            observer.max_val.fill_(min(high, last + step))


def _observer(prepared: GraphModule, node: Node) -> Any:
    """What observes a node's operand, if the node does that."""
    observer: Any = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
    return observer if hasattr(observer, "calculate_qparams") else None


def _is_read_by_functions_alone(nodes: Sequence[Node], readers: Sequence[Node]) -> bool:
    rules = [RULES.get(reader.target) for reader in readers]
    computed = not any(is_constant(node.args[0]) for node in nodes)
    return bool(rules) and computed and all(rule is not None and rule.function for rule in rules)


def _ends(prepared: GraphModule, function: Node, low: float, high: float) -> tuple[float, float]:
    """Where a function begins and ceases to change by what its result tells apart."""
    step = next(_steps(prepared, function), None)
    x = torch.linspace(low, high, POINTS, dtype=torch.float64)
    y = function.target(x, *function.args[1:], **function.kwargs)  # type: ignore[operator]  # a call_function
    if step is None or not bool(torch.isfinite(y).all()):
        return low, high
    first, last = (_flat(side, TOLD_APART * step) for side in (y, y.flip(0)))
    return float(x[first]), float(x[POINTS - 1 - last])


def _steps(prepared: GraphModule, function: Node) -> Iterator[float]:
    for user in function.users:
        observer = _observer(prepared, user)
        if observer is not None and has_finite_range(observer):
            yield float(observer.calculate_qparams()[0])


def _flat(y: Tensor, told_apart: float) -> int:
    """How many points from the first one on are one number."""
    spread = y.cummax(0).values - y.cummin(0).values
    return int((spread <= told_apart).sum()) - 1
