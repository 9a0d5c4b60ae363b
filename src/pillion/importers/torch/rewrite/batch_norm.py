# SPDX-License-Identifier: Apache-2.0
"""Batch norms in a model that is not trained any more: into the layer before them, or a depthwise 1x1 convolution.

A norm over channels is y = x · factor + offset per channel. A convolution, transposed convolution or linear layer takes both
into its weights, if nobody else reads its result and both mean the same axis by "channel". Any other norm becomes a depthwise
1x1 convolution: with per-channel weights its factors are exact to 1 in 127·2²⁴, and its offsets have 32 bits, which a
multiplication and an addition by int8 constants could not offer.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from pillion.importers.torch.nodes import (
    argument,
    aten,
    call,
    call_like,
    calls,
    constant,
    constant_of,
    named_argument,
    replace,
    shape_of,
    value_of,
)
from pillion.importers.torch.train.simulation import batch_norm, factor, scale_weight

LAYERS: dict[Any, int] = {
    aten.linear.default: 2,
    aten.conv1d.default: 3,
    aten.conv2d.default: 4,
    aten.conv3d.default: 5,
    aten.conv_transpose1d.default: 3,
    aten.conv_transpose2d.input: 4,
    aten.conv_transpose3d.input: 5,
}
"""The rank of the result where axis 1 is the channels: for a linear layer [N, C], for convolutions one with a batch axis."""
TRANSPOSED = frozenset(
    {aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input}
)

NORMS = frozenset({aten.batch_norm.default, batch_norm})


@dataclass(frozen=True)
class Affine:
    """The factor and offset by which a norm changes each channel."""

    factor: Tensor
    offset: Tensor


def fold_batch_norms(module: GraphModule) -> bool:
    """Folds what can be folded, rewrites the other norms, and says whether anything has changed."""
    norms = calls(module.graph, [aten.batch_norm.default])
    shared = shared_norms(module.graph)
    plans = [
        (norm, affine_of(norm), foldable_layer(norm, shared)) for norm in norms
    ]  # before the first one changes the graph
    for norm, affine, layer in plans:
        if affine is None:
            replace(norm, under_native_name(norm))
        elif layer is not None:
            replace(norm, _fold(module, layer, affine))
        else:
            replace(norm, _as_depthwise(module, norm, affine))
    if norms:
        module.graph.eliminate_dead_code()
    return bool(norms)


def under_native_name(norm: Node) -> Node:
    """Calls a norm by a name that torchao's own folding, which does not ask for statistics, passes by."""
    x, weight, bias, mean, variance, training, momentum, eps = (argument(norm, i) for i in range(8))
    whole = call(
        norm, aten.native_batch_norm.default, x, weight, bias, mean, variance, training, momentum, eps
    )
    return call(norm, getitem, whole, 0)


def affine_of(norm: Node) -> Affine | None:
    """Gives factor and offset of a norm, None if they depend on the batch (no running statistics, or training)."""
    weight, bias, mean, variance = (constant_of(argument(norm, i)) for i in range(1, 5))
    if mean is None or variance is None or argument(norm, 5):
        return None
    if any(argument(norm, i) is not None and held is None for i, held in ((1, weight), (2, bias))):
        return None
    exact = factor(None if weight is None else weight.double(), variance.double(), argument(norm, 7))
    offset = -mean.double() * exact
    return Affine(exact.detach(), (offset if bias is None else offset + bias.double()).detach())


def foldable_layer(norm: Node, shared: Container[Node]) -> Node | None:
    """Gives the layer in front of a norm, if it can take the norm in."""
    layer = norm.args[0]
    if (
        not isinstance(layer, Node)
        or not _has_own_channels(layer)
        or set(layer.users) != {norm}
        or norm in shared
    ):
        return None
    weight, bias = argument(layer, 1), argument(layer, 2)
    if constant_of(weight) is None or (bias is not None and constant_of(bias) is None):
        return None
    return layer


def _has_own_channels(layer: Node) -> bool:
    """Is axis 1 of the layer's result what its weights make?"""
    return layer.op == "call_function" and LAYERS.get(layer.target) == len(shape_of(layer))


def shared_norms(graph: Graph) -> frozenset[Node]:
    """Gives the calls of norms that are called more than once."""
    callers: dict[object, list[Node]] = {}
    for read in graph.find_nodes(op="get_attr"):
        norms = [user for user in read.users if user.target in NORMS and argument(user, 3) is read]
        callers.setdefault(read.target, []).extend(norms)
    return frozenset(norm for norms in callers.values() if len(norms) > 1 for norm in norms)


def _fold(module: GraphModule, layer: Node, affine: Affine) -> Node:
    weight, bias = constant_of(argument(layer, 1)), constant_of(argument(layer, 2))
    assert weight is not None
    folded = scale_weight(weight.double(), affine.factor, transposed_groups(layer)).to(weight.dtype)
    start = affine.offset if bias is None else affine.offset + bias.double() * affine.factor
    name = getattr(argument(layer, 1), "name", layer.name)
    new_weight = constant(module, layer, folded, f"{name}_folded")
    new_bias = constant(module, layer, start.to(weight.dtype), f"{name}_folded_bias")
    arguments = (layer.args[0], new_weight, new_bias, *layer.args[3:])
    return call_like(layer, value_of(layer), layer.target, *arguments, **layer.kwargs)  # type: ignore[arg-type]  # a call


def transposed_groups(layer: Node) -> int:
    """Counts the groups of a transposed convolution, 0 for other layers: `scale_weight` needs to know."""
    return int(named_argument(layer, "groups")) if layer.target in TRANSPOSED else 0


def _as_depthwise(module: GraphModule, norm: Node, affine: Affine) -> Node:
    source: Any = norm.args[0]
    shape = shape_of(source)
    channels = shape[1]
    x = source if len(shape) == 4 else call(norm, aten.reshape.default, source, image_shape(shape))
    weight = constant(module, norm, affine.factor.float().reshape(-1, 1, 1, 1), f"{norm.name}_factor")
    bias = constant(module, norm, affine.offset.float(), f"{norm.name}_offset")
    y = call(norm, aten.conv2d.default, x, weight, bias, [1, 1], [0, 0], [1, 1], channels)
    return y if len(shape) == 4 else call(norm, aten.reshape.default, y, list(shape))


def image_shape(shape: tuple[int, ...]) -> list[int]:
    """Gives the shape of the same tensor with four axes."""
    batch, channels, *rest = shape
    return [batch, channels, math.prod(rest[:-1]), rest[-1]] if rest else [batch, channels, 1, 1]
