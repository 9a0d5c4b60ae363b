# SPDX-License-Identifier: Apache-2.0
"""Folds batch norms, and constant factors behind layers, for inference.

A norm is y = x · factor + offset per channel. A convolution or linear layer absorbs both if only the norm reads
it and axis 1 is its channels. Other norms become depthwise 1x1 convolutions, whose factors are exact to 1 in
127·2²⁴ and whose offsets have 32 bits, unlike int8 multiplications and additions."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.train.batch_norm_calls import batch_norm, factor, scale_weight

LAYERS: dict[Any, int] = {
    aten.linear.default: 2,
    aten.conv1d.default: 3,
    aten.conv2d.default: 4,
    aten.conv3d.default: 5,
    aten.conv_transpose1d.default: 3,
    aten.conv_transpose2d.input: 4,
    aten.conv_transpose3d.input: 5,
}
"""Rank of the result for which axis 1 is the channel axis."""
TRANSPOSED = frozenset(
    {aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input}
)

NORMS = frozenset({aten.batch_norm.default, batch_norm})


@dataclass(frozen=True)
class Affine:
    """Factor and offset of each channel."""

    factor: Tensor
    offset: Tensor


def fold_batch_norms(module: GraphModule) -> bool:
    """Folds or lowers all batch norms. Returns whether there were any."""
    norms = fx.calls(module.graph, [aten.batch_norm.default])
    shared = shared_norms(module.graph)
    plans = [
        (norm, affine_of(norm), foldable_layer(norm, shared)) for norm in norms
    ]  # before the first one changes the graph
    for norm, affine, layer in plans:
        if affine is None:
            fx.replace(norm, as_native_norm(norm))
        elif layer is not None:
            fx.replace(norm, _fold_into_layer(layer, affine))
        else:
            fx.replace(norm, _as_depthwise(norm, affine))
    if norms:
        module.graph.eliminate_dead_code()
    return bool(norms)


def fold_factors(module: GraphModule) -> None:
    """Folds constant factors, of all or of each channel, into the layers in front of them."""
    for product in fx.calls(module.graph, [aten.mul.Tensor]):
        for layer, other in (product.args, product.args[::-1]):
            if (
                isinstance(layer, Node)
                and (exact := _factor_of_channels(product, layer, fx.constant_of(other))) is not None
            ):
                fx.replace(product, _fold_into_layer(layer, Affine(exact, exact.new_zeros(exact.shape))))
                break
    module.graph.eliminate_dead_code()


def _factor_of_channels(product: Node, layer: Node, factor: Tensor | None) -> Tensor | None:
    """Returns the factor of each channel of a layer, or None if the layer cannot take it. Factors of zero stay: warnings
    of calibration name them."""
    if factor is None or layer.target not in LAYERS or set(layer.users) != {product} or not factor.all():
        return None
    shape, is_linear = fx.shape_of(layer), layer.target is aten.linear.default
    axis = len(shape) - 1 if is_linear else 1
    of_axis = (1,) * axis + (shape[axis],) + (1,) * (len(shape) - axis - 1)
    padded = (1,) * (len(shape) - factor.dim()) + tuple(factor.shape)
    has_batch = is_linear or len(shape) == LAYERS[layer.target]
    is_of_channels = padded in (of_axis, (1,) * len(shape)) and fx.shape_of(product) == shape
    if not (has_batch and is_of_channels and _has_constant_weights(layer)):
        return None
    return factor.detach().double().reshape(-1).expand(shape[axis])


def as_native_norm(norm: Node) -> Node:
    """Replaces a norm by `native_batch_norm`, which torchao's folding ignores."""
    x, weight, bias, mean, variance, training, momentum, eps = (fx.argument_of(norm, i) for i in range(8))
    native = fx.call(
        norm, aten.native_batch_norm.default, x, weight, bias, mean, variance, training, momentum, eps
    )
    return fx.call(norm, getitem, native, 0)


def affine_of(norm: Node) -> Affine | None:
    """Returns factor and offset of a norm; None if they depend on the batch."""
    weight, bias, mean, variance = (fx.constant_of(fx.argument_of(norm, i)) for i in range(1, 5))
    if mean is None or variance is None or fx.argument_of(norm, 5):
        return None
    if any(fx.argument_of(norm, i) is not None and tensor is None for i, tensor in ((1, weight), (2, bias))):
        return None
    exact = factor(None if weight is None else weight.double(), variance.double(), fx.argument_of(norm, 7))
    offset = -mean.double() * exact
    return Affine(exact.detach(), (offset if bias is None else offset + bias.double()).detach())


def foldable_layer(norm: Node, shared: Container[Node]) -> Node | None:
    """Returns the layer in front of a norm if it can absorb the norm."""
    layer = norm.args[0]
    if not isinstance(layer, Node) or LAYERS.get(layer.target) != len(fx.shape_of(layer)):
        return None
    is_own = set(layer.users) == {norm} and norm not in shared
    return layer if is_own and _has_constant_weights(layer) else None


def _has_constant_weights(layer: Node) -> bool:
    """Whether the weights of a layer are constants, and its bias, if it has one."""
    weight, bias = fx.argument_of(layer, 1), fx.argument_of(layer, 2)
    return fx.constant_of(weight) is not None and (bias is None or fx.constant_of(bias) is not None)


def shared_norms(graph: Graph) -> frozenset[Node]:
    """Returns the calls of norms that are called more than once."""
    callers: dict[object, list[Node]] = {}
    for read in graph.find_nodes(op="get_attr"):
        norms = [user for user in read.users if user.target in NORMS and fx.argument_of(user, 3) is read]
        callers.setdefault(read.target, []).extend(norms)
    return frozenset(norm for norms in callers.values() if len(norms) > 1 for norm in norms)


def _fold_into_layer(layer: Node, affine: Affine) -> Node:
    weight, bias = fx.constant_of(fx.argument_of(layer, 1)), fx.constant_of(fx.argument_of(layer, 2))
    assert weight is not None
    folded = scale_weight(weight.double(), affine.factor, transposed_groups(layer)).to(weight.dtype)
    start = affine.offset if bias is None else affine.offset + bias.double() * affine.factor
    name = getattr(fx.argument_of(layer, 1), "name", layer.name)
    new_weight = fx.constant(layer, folded, f"{name}_folded")
    new_bias = fx.constant(layer, start.to(weight.dtype), f"{name}_folded_bias")
    arguments = (layer.args[0], new_weight, new_bias, *layer.args[3:])
    return fx.call_like(layer, fx.fake_result(layer), layer.target, *arguments, **layer.kwargs)  # type: ignore[arg-type]  # a call


def transposed_groups(layer: Node) -> int:
    """Returns the groups of a transposed convolution; 0 for other layers."""
    return int(fx.named_argument(layer, "groups")) if layer.target in TRANSPOSED else 0


def _as_depthwise(norm: Node, affine: Affine) -> Node:
    source: Any = norm.args[0]
    shape = fx.shape_of(source)
    channels = shape[1]
    x = source if len(shape) == 4 else fx.call(norm, aten.reshape.default, source, image_shape(shape))
    weight = fx.constant(norm, affine.factor.float().reshape(-1, 1, 1, 1), f"{norm.name}_factor")
    bias = fx.constant(norm, affine.offset.float(), f"{norm.name}_offset")
    y = fx.call(norm, aten.conv2d.default, x, weight, bias, [1, 1], [0, 0], [1, 1], channels)
    return y if len(shape) == 4 else fx.call(norm, aten.reshape.default, y, list(shape))


def image_shape(shape: tuple[int, ...]) -> list[int]:
    """Returns the equivalent shape with four axes."""
    batch, channels, *rest = shape
    return [batch, channels, math.prod(rest[:-1]), rest[-1]] if rest else [batch, channels, 1, 1]
