# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes relu6, hardtanh, and minimum and maximum with a number to `relu` or `clamp`, directly behind the
op that computes their operand."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rows.quantization import RULES

Bounds = tuple[float, float]

BOUNDS = fx.torch_operators("clamp clamp_max clamp_min hardtanh maximum minimum relu relu6")
MOVES_VALUES = (*fx.torch_operators("max_pool2d permute reshape"), aten.slice.Tensor)
"""Ops that commute with clamps. Ahead of them, a clamp can fuse with a computing op."""


def canonicalize_clamps(module: GraphModule, *, training: bool = False) -> None:
    """Canonicalizes clamps, merges two in a row, and hoists them to the op whose output range they limit."""
    for node in fx.calls(module.graph, BOUNDS):
        bounds = None if training and any(map(fx.is_trainable, node.args)) else _clamp_bounds(node)
        if bounds is not None:
            _canonicalize_clamp(node, _ordered_bounds(bounds, node))
    for node in fx.calls(module.graph, fx.CLAMPS):
        _hoist_clamp(node)


def _clamp_bounds(node: Node) -> Bounds | None:
    """Returns the least and largest value of the result; None if the op is no clamp, such as a logical and."""
    target = node.target
    if fx.fake_result(node).dtype == torch.bool:
        return None
    if target in (aten.relu.default, aten.relu6.default):
        return 0.0, math.inf if target is aten.relu.default else 6.0
    if target in (aten.maximum.default, aten.minimum.default):
        return _extremum_bounds(node)
    first = fx.argument_of(node, 1)
    if target is aten.clamp_min.default:
        return float(first), math.inf
    if target is aten.clamp_max.default:
        return -math.inf, float(first)
    last = fx.argument_of(node, 2)
    return -math.inf if first is None else float(first), math.inf if last is None else float(last)


def _ordered_bounds(bounds: Bounds, node: Node) -> Bounds:
    """Orders the bounds. If the least exceeds the largest, PyTorch returns the largest."""
    if any(map(math.isnan, bounds)):
        raise PillionError(
            "a bound of a clamp is not a number",
            rule="bounds are numbers, or minus and plus infinity, or left out",
            here=f"{bounds[0]} to {bounds[1]}  ({fx.source_line(node)})",
            help="leave the bound out: PyTorch answers nan for every input",
        )
    return min(bounds), bounds[1]


def _extremum_bounds(node: Node) -> Bounds | None:
    """Bounds of a minimum or maximum with a one-element constant."""
    operand = _clamped_operand(node)
    tensor = fx.constant_of(next((a for a in node.args if a is not operand), None))
    if tensor is None or tensor.numel() != 1 or fx.shape_of(operand) != fx.shape_of(node):
        return None
    return (tensor.item(), math.inf) if node.target is aten.maximum.default else (-math.inf, tensor.item())


def _clamped_operand(node: Node) -> Any:
    """Returns the clamped operand."""
    return node.args[0] if fx.constant_of(node.args[0]) is None else node.args[1]


def _canonicalize_clamp(node: Node, bounds: Bounds) -> None:
    source: Any = _clamped_operand(node)
    inner = _clamp_bounds(source) if source.target in fx.CLAMPS else None
    if inner is not None and fx.single_user(source) is node:
        low, high = (min(max(bound, bounds[0]), bounds[1]) for bound in inner)
        bounds, source = (low, high), source.args[0]
    fx.replace(node, _insert_clamp(node, source, bounds))


def _insert_clamp(before: Node, source: Node, bounds: Bounds) -> Node:
    low = None if bounds[0] == -math.inf else bounds[0]
    high = None if bounds[1] == math.inf else bounds[1]
    if low is None and high is None:
        return source
    target, more = (
        (aten.relu.default, ()) if (low, high) == (0.0, None) else (aten.clamp.default, (low, high))
    )
    value = fx.fake_result(source)
    if isinstance(value, Tensor) and value.is_floating_point() and value.is_contiguous():
        return fx.call_like(before, value, target, source, *more)  # bounds change neither shape nor type
    return fx.call(before, target, source, *more)


def _hoist_clamp(node: Node) -> None:
    """Hoists a clamp over ops that only move values: relu(max_pool(x)) is max_pool(relu(x))."""
    last: Any = node.args[0]
    first = last
    if not _can_hoist_over(last):
        return
    while _can_hoist_over(first.args[0]):
        first = first.args[0]
    source: Any = first.args[0]
    rule = RULES.get(source.target)
    if rule is None or not rule.takes_clamp or fx.single_user(source) is None:
        return
    first.replace_input_with(source, fx.call(first, node.target, source, *node.args[1:]))  # type: ignore[arg-type]  # a call
    fx.replace(node, last)


def _can_hoist_over(node: Any) -> bool:
    return isinstance(node, Node) and node.target in MOVES_VALUES and fx.single_user(node) is not None
