# SPDX-License-Identifier: Apache-2.0
"""Ranges known without data: indices lie between 0 and the size of their axis, and functions of indices
accordingly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch.fx_nodes import aten, constant_of, fake_result, shape_of, torch_operators
from pillion.importers.torch.observers import is_per_tensor, observer_of, widen_range
from pillion.importers.torch.rewrite.compare_select import top_places
from pillion.importers.torch.rewrite.fuse_scalar_functions import POINTWISE
from pillion.importers.torch.rewrite.integer_arithmetic import integer_calculation
from pillion.importers.torch.scalar_function import evaluate_steps
from pillion.ops.integer_arithmetic import Calculation

Span = tuple[int, int]
"""Least and largest of some integers."""
MOST = 2**15
"""Largest tracked index; beyond it, int8 cannot represent small ones anyway."""
POINTS = 1024
"""Maximum sampled points of a function."""
MOVES = (*torch_operators("reshape permute cat flip index_select clone amax amin"), aten.slice.Tensor)
"""Calls whose results are elements of their operands."""


def _monotonic_span_rule(function: Callable[[int, int], int]) -> Callable[[Span, Span], Span]:
    """Returns the span rule of a function that is monotonic in each operand."""

    def span(a: Span, b: Span) -> Span:
        values = [function(x, y) for x in a for y in b]
        return min(values), max(values)

    return span


def _remainder_span(a: Span, b: Span) -> Span | None:
    return (0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1) if b[0] > 0 else None


SPANS: Mapping[Calculation, Callable[[Span, Span], Span | None]] = MappingProxyType(
    {
        Calculation.ADD: _monotonic_span_rule(lambda x, y: x + y),
        Calculation.SUB: _monotonic_span_rule(lambda x, y: x - y),
        Calculation.MUL: _monotonic_span_rule(lambda x, y: x * y),
        Calculation.MINIMUM: _monotonic_span_rule(min),
        Calculation.MAXIMUM: _monotonic_span_rule(max),
        Calculation.FLOOR_DIV: lambda a, b: (
            _monotonic_span_rule(lambda x, y: x // y)(a, b) if b[0] > 0 else None
        ),
        Calculation.FLOOR_MOD: _remainder_span,
    }
)
"""Spans of the results of integer calculations."""


def widen_index_ranges(prepared: GraphModule) -> None:
    """Widens observed ranges of values computed from indices to all possible values."""
    spans: dict[Node, Span] = {}
    reals: dict[Node, Tensor] = {}
    for node in prepared.graph.nodes:
        span = _integer_span(node, spans)
        if span is not None and -MOST <= span[0] <= span[1] <= MOST:
            spans[node] = span
        real = _possible_reals(prepared, node, spans, reals)
        if real is not None and bool(torch.isfinite(real).all()):
            reals[node] = real


def _integer_span(node: Node, spans: Mapping[Node, Span]) -> Span | None:
    """Returns the span of integers; None if unknown."""
    tensor = constant_of(node)
    if tensor is not None:
        is_whole = not tensor.is_floating_point() and tensor.dtype != torch.bool and tensor.numel()
        return (int(tensor.min()), int(tensor.max())) if is_whole else None
    if node.target in (aten.argmax.default, aten.argmin.default, top_places):
        axis: Any = -1 if node.target is top_places else node.args[1]
        return 0, shape_of(_before_observer(node.args[0]))[axis] - 1  # type: ignore[arg-type]  # a tensor
    if node.target is integer_calculation:
        a, b = (spans.get(operand) for operand in node.args[:2])  # type: ignore[arg-type]  # tensors
        rule = SPANS.get(Calculation(node.args[2]))
        return rule(a, b) if rule and a and b else None
    if node.target is aten._to_copy.default and fake_result(node.args[0]).dtype == torch.bool:  # type: ignore[arg-type]  # a tensor
        return 0, 1
    operands = node.all_input_nodes[:1] if node.target is aten.index_select.default else node.all_input_nodes
    if node.target in (*MOVES, aten._to_copy.default) and operands and all(n in spans for n in operands):
        return min(spans[n][0] for n in operands), max(spans[n][1] for n in operands)
    return None


def _possible_reals(
    prepared: GraphModule, node: Node, spans: Mapping[Node, Span], reals: Mapping[Node, Tensor]
) -> Tensor | None:
    """Returns possible values of a real tensor: its bounds, and samples in between."""
    operands = [n for n in node.all_input_nodes if constant_of(_before_observer(n)) is None]
    if node.target is aten._to_copy.default and node in spans and fake_result(node).is_floating_point():
        low, high = spans[node]
        return torch.linspace(low, high, min(high - low + 1, POINTS)).round()
    if len(operands) != 1 or operands[0] not in reals:
        return None
    known = reals[operands[0]]
    if node.op == "call_module":
        observer = observer_of(prepared, node)
        if is_per_tensor(observer):
            widen_range(observer, known.min(), known.max())
        return known
    if node.target in MOVES and len(node.all_input_nodes) == 1:
        return known
    return _unary_results(node, operands[0], known)


def _unary_results(node: Node, operand: Node, known: Tensor) -> Tensor | None:
    """Results of a function of one number; None for other calls."""
    if node.target not in POINTWISE | {evaluate_steps}:
        return None

    held = {n: constant_of(_before_observer(n)) for n in node.all_input_nodes if n is not operand}
    if any(tensor is None or tensor.numel() != 1 for tensor in held.values()):
        return None
    values: dict[Node, Any] = {operand: known, **{n: t.reshape(()) for n, t in held.items() if t is not None}}
    with torch.no_grad():
        args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
        result = node.target(*args, **kwargs)  # type: ignore[operator]  # a call
    return result if isinstance(result, Tensor) and result.is_floating_point() else None


def _before_observer(node: Node) -> Node:
    """Returns the node behind an observer."""
    return node.all_input_nodes[0] if node.op == "call_module" and node.all_input_nodes else node
