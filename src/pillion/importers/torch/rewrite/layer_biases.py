# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes layer biases to one constant per output; others are added behind the layer."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten

LAYERS = (*fx.CONVOLUTIONS, aten.linear.default)


def canonicalize_layer_constants(module: GraphModule, *, training: bool = False) -> None:
    """Makes weights of linear layers matrices, and biases of all layers constant vectors."""
    for node in fx.calls(module.graph, [aten.linear.default]):
        weight: Any = node.args[1]
        if len(fx.shape_of(weight)) == 1:
            fx.replace(node, _weight_vector_as_matrix(node, weight))
    for node in fx.calls(module.graph, LAYERS):
        bias = fx.named_argument(node, "bias")
        if bias is not None and not (
            fx.is_constant(bias) and fx.shape_of(bias) == (_output_channel_count(node),)
        ):
            fx.replace(node, _with_constant_bias(node, bias, training))


def _weight_vector_as_matrix(node: Node, weight: Node) -> Node:
    """Turns a weight vector into a matrix of one row and removes the extra axis of the result."""
    matrix = fx.call(node, aten.reshape.default, weight, [1, *fx.shape_of(weight)])
    tensor = fx.fixed_tensor(weight, training=True)
    if tensor is not None:
        matrix = fx.constant(node, tensor.reshape(1, -1), f"{node.name}_weight")
    layer = fx.call(node, aten.linear.default, node.args[0], matrix, *node.args[2:])
    return fx.call(node, aten.reshape.default, layer, list(fx.shape_of(node)))


def _output_channel_count(layer: Node) -> int:
    """Returns the number of output channels or features."""
    shape = fx.shape_of(layer)
    return shape[-1] if layer.target is aten.linear.default else shape[1]


def _with_constant_bias(layer: Node, bias: Node, training: bool) -> Node:
    tensor, outputs = fx.fixed_tensor(bias, training), _output_channel_count(layer)
    if tensor is not None and tensor.numel() in (1, outputs) and tensor.shape[-1:] in ((), (1,), (outputs,)):
        vector = fx.constant(layer, tensor.reshape(-1).expand(outputs).contiguous(), f"{layer.name}_bias")
        return fx.call(layer, layer.target, *_arguments_with_bias(layer, vector))  # type: ignore[arg-type]  # a call
    alone = fx.call(layer, layer.target, *_arguments_with_bias(layer, None))  # type: ignore[arg-type]  # a call
    behind = len(fx.shape_of(layer)) - 2
    if layer.target is not aten.linear.default:
        bias = fx.call(layer, aten.reshape.default, bias, [-1, *[1] * behind])
    return fx.call(layer, aten.add.Tensor, alone, bias)


def _arguments_with_bias(layer: Node, bias: Node | None) -> tuple[Any, ...]:
    names = [declared.name for declared in layer.target._schema.arguments]  # type: ignore[union-attr]  # an OpOverload
    return tuple(bias if name == "bias" else fx.named_argument(layer, name) for name in names)
