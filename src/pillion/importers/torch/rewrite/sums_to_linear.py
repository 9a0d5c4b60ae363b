# SPDX-License-Identifier: Apache-2.0
"""Rewrites sums of products with constants, such as a soft-argmax `(shares * places).sum(-1)`, as linear layers,
which accumulate in 32 bits instead of rounding each product to int8."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten


def sums_to_linear(module: GraphModule) -> None:
    """Rewrites sums and means of products with a constant as linear layers if each result sums one row of the
    operand."""
    for node in fx.calls(module.graph, [aten.sum.dim_IntList, aten.mean.dim]):
        product: Any = node.args[0]
        if (
            product.target is not aten.mul.Tensor
            or fx.single_user(product) is not node
            or not fx.argument_of(node, 1)
        ):
            continue
        for x, factors in (product.args[:2], product.args[1::-1]):
            tensor = fx.constant_of(factors)
            if isinstance(x, Node) and tensor is not None and fx.constant_of(x) is None:
                axes = _classify_axes(node, x, tensor)
                if axes is not None:
                    fx.replace(node, _insert_linear_layer(node, x, tensor, axes))
                    break


@dataclass(frozen=True)
class _ProductAxes:
    """Axes of a product: summed, the operand's rows, or the factors' outputs."""

    summed: tuple[int, ...]
    rows: tuple[int, ...]
    outputs: tuple[int, ...]


def _classify_axes(total: Node, x: Node, factors: Tensor) -> _ProductAxes | None:
    """Classifies the axes; None if operand and factors share a kept axis, or the operand is broadcast along a
    summed one."""
    shape = fx.shape_of(total.args[0])  # type: ignore[arg-type]  # a product
    rank = len(shape)
    dims: Any = fx.argument_of(total, 1)
    summed = tuple(sorted(int(d) % rank for d in dims))
    of_x, of_factors = ((1,) * (rank - len(s)) + tuple(s) for s in (fx.shape_of(x), factors.shape))
    if any(of_x[axis] != shape[axis] for axis in summed) or factors.numel() < 2:
        return None
    remaining = [axis for axis in range(rank) if axis not in summed]
    outputs = tuple(axis for axis in remaining if of_factors[axis] > 1)
    if any(of_x[axis] > 1 for axis in outputs):
        return None
    return _ProductAxes(summed, tuple(axis for axis in remaining if axis not in outputs), outputs)


def _insert_linear_layer(node: Node, x: Node, factors: Tensor, axes: _ProductAxes) -> Node:
    shape = fx.shape_of(node.args[0])  # type: ignore[arg-type]  # a product
    rank, size = len(shape), [math.prod(shape[a] for a in part) for part in (axes.summed, axes.outputs)]
    rows = [shape[a] for a in axes.rows]
    expanded = factors.reshape((1,) * (rank - factors.dim()) + tuple(factors.shape))
    expanded = expanded.expand([shape[a] if a in (*axes.summed, *axes.outputs) else 1 for a in range(rank)])
    weights = expanded.permute(*axes.outputs, *axes.summed, *axes.rows).reshape(size[1], size[0])
    if node.target is aten.mean.dim:
        weights = weights / size[0]
    operand = fx.call(
        node, aten.reshape.default, x, [1] * (rank - len(fx.shape_of(x))) + list(fx.shape_of(x))
    )
    operand = fx.insert_permutation(node, operand, [*axes.rows, *axes.outputs, *axes.summed])
    operand = fx.call(node, aten.reshape.default, operand, [*(rows or [1]), size[0]])
    weights_node = fx.constant(node, weights.clone(), f"{node.name}_weights")
    result = fx.call(node, aten.linear.default, operand, weights_node, None)
    result = fx.call(node, aten.reshape.default, result, [*rows, *(shape[a] for a in axes.outputs)])
    order = (*axes.rows, *axes.outputs)
    result = fx.insert_permutation(node, result, [order.index(a) for a in sorted(order)])
    return fx.call(node, aten.reshape.default, result, list(fx.shape_of(node)))
