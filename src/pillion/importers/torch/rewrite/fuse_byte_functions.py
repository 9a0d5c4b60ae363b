# SPDX-License-Identifier: Apache-2.0
"""Recognizes functions of bytes that give bytes, whatever operators compute them: they are evaluated on all bytes, or on
all sums that a layer can have, and are exact in every program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.byte_functions import convolve_bytes, look_up_bytes
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.fuse_scalar_functions import POINTWISE
from pillion.importers.torch.rewrite.integer_arithmetic import FITTING_ALWAYS, OF_TWO, operator_overloads

CASTS = (aten.to.dtype, aten._to_copy.default)
STEPS = POINTWISE.union(
    CASTS,
    FITTING_ALWAYS,
    *map(operator_overloads, (*OF_TWO.values(), "lt le eq ne ge gt")),
    (aten.clone.default, aten.div.Tensor_mode, aten.div.Scalar_mode),
)
"""Calls that compute each element from one element."""
MOST_SUMS = 1 << 22
"""Sums of a layer on which a function is evaluated at most."""
MOST_STEPS = 64
MOST_PLACES = 14
MOST_WEIGHT = 127


def fuse_byte_functions(module: GraphModule) -> None:
    """Replaces computations of bytes by lookups in tables and by layers of bytes."""
    order = {node: index for index, node in enumerate(module.graph.nodes)}
    for node in reversed(fx.calls(module.graph, STEPS)):
        if fx.is_tensor(node, torch.uint8) and node.users:
            new = _fused(node, order, True) or _fused(node, order, False)
            if new is not None:
                fx.replace(node, new)
    module.graph.eliminate_dead_code()


@dataclass(frozen=True)
class _Steps:
    """Calls that compute each element of a result from the same element of one operand, in order."""

    operand: Node
    calls: tuple[Node, ...]

    def evaluate(self, values: Tensor) -> Tensor | None:
        """Returns the results of values of the operand; None if a number is cast to a byte that is none."""
        known: dict[Node, Any] = {self.operand: values}
        for node in self.calls:
            for held in node.all_input_nodes:
                if held not in known:
                    known[held] = fx.evaluate_constant(held).reshape(())
            args: Any
            args, kwargs = map_arg((node.args, dict(node.kwargs)), known.__getitem__)
            known[node] = node.target(*args, **kwargs)  # type: ignore[operator]  # a call
            is_cut = node.target in CASTS and fx.is_tensor(node, torch.uint8)
            if (
                is_cut
                and args[0].is_floating_point()
                and not torch.equal(known[node].to(args[0].dtype), args[0].trunc())
            ):
                return None
        result: Tensor = known[self.calls[-1]]
        return result


def _fused(node: Node, order: Mapping[Node, int], through_bytes: bool) -> Node | None:
    steps = _steps_to(node, order, through_bytes)
    return None if steps is None else _as_lookup(node, steps) or _as_layer(node, steps)


def _steps_to(last: Node, order: Mapping[Node, int], through_bytes: bool) -> _Steps | None:
    """Returns the calls between the only operand of a result and the result; None if several operands reach it. With
    `through_bytes`, bytes on the way do not count as operands."""
    inside: dict[Node, None] = {last: None}
    sources: dict[Node, None] = {}
    waiting = [last]
    while waiting and len(sources) < 2 and len(inside) < MOST_STEPS:
        for operand in waiting.pop().all_input_nodes:
            if operand in inside or (fx.is_constant(operand) and math.prod(fx.shape_of(operand)) == 1):
                continue
            if operand.target not in STEPS or (fx.is_tensor(operand, torch.uint8) and not through_bytes):
                sources[operand] = None
            else:
                inside[operand] = None
                waiting.append(operand)
    shapes = {fx.shape_of(node) for node in (*inside, *sources)}
    if waiting or len(sources) != 1 or len(shapes) != 1:
        return None
    return _Steps(next(iter(sources)), tuple(sorted(inside, key=order.__getitem__)))


def _as_lookup(node: Node, steps: _Steps) -> Node | None:
    """Returns the table lookup that replaces calls on a byte operand."""
    if not fx.is_tensor(steps.operand, torch.uint8):
        return None
    table = steps.evaluate(torch.arange(256, dtype=torch.uint8))
    if table is None:
        return None
    return fx.call(node, look_up_bytes, steps.operand, fx.constant(node, table, f"{node.name}_table"))


def _as_layer(node: Node, steps: _Steps) -> Node | None:
    """Returns the byte layer that replaces a convolution of bytes with rounded and clipped sums."""
    layer = steps.operand
    if layer.target is not aten.conv2d.default:
        return None
    cast, weight, bias, *window = (fx.argument_of(layer, i) for i in range(7))
    source: Any = cast.args[0] if cast.target in CASTS else None
    if not (
        fx.is_tensor(source, torch.uint8)
        and fx.is_constant(weight)
        and (bias is None or fx.is_constant(bias))
    ):
        return None
    weights = fx.evaluate_constant(weight).double()
    biases = torch.zeros(len(weights)).double() if bias is None else fx.evaluate_constant(bias).double()
    integers = _as_integers(weights, biases, steps)
    if integers is None:
        return None
    factors, offsets, places = integers
    weight, bias = (
        fx.constant(node, factors, f"{node.name}_weight"),
        fx.constant(node, offsets, f"{node.name}_bias"),
    )
    return fx.call(node, convolve_bytes, source, weight, bias, places, tuple(window))


def _as_integers(weights: Tensor, biases: Tensor, steps: _Steps) -> tuple[Tensor, Tensor, int] | None:
    """Returns weights, biases and the places that are dropped of the sums, if integers compute the same."""
    for places in range(2, MOST_PLACES):
        factors, offsets = weights * 2**places, biases * 2**places
        if factors.abs().max() > MOST_WEIGHT:
            return None
        if bool((factors == factors.round()).all() and (offsets == offsets.round()).all()):
            rounding = _rounding(factors, offsets, places, steps)
            if rounding is None:
                return None
            return factors.to(torch.int8), (offsets + rounding).to(torch.int32), places
    return None


def _rounding(factors: Tensor, offsets: Tensor, places: int, steps: _Steps) -> int | None:
    """Returns the number added to sums before their lowest bits are dropped: zero, or half. None for other
    functions."""
    largest = (factors.clamp(min=0).flatten(1).sum(1) * 255 + offsets).max()
    least = (factors.clamp(max=0).flatten(1).sum(1) * 255 + offsets).min()
    if largest - least > MOST_SUMS:
        return None
    sums = torch.arange(int(least), int(largest) + 1)
    result = steps.evaluate(sums.float() / 2**places)
    if result is None:
        return None
    for rounding in (0, 1 << (places - 1)):
        if torch.equal(result, ((sums + rounding) >> places).clamp(0, 255).to(torch.uint8)):
            return rounding
    return None
