# SPDX-License-Identifier: Apache-2.0
"""Gives layers of converted programs an int8 result if the quantizer left their activation between them and the
quantize node."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.conversion_forms import FULL
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.quantize.quantized_program import PER_CHANNEL, PER_TENSOR
from pillion.importers.torch.rewrite.layer_biases import LAYERS

INVERSES = {aten.sigmoid.default: lambda y: math.log(y / (1.0 - y)), aten.tanh.default: math.atanh}
"""Activations with an upper bound of 1, and their inverses."""


def quantize_before_activations(module: GraphModule) -> None:
    """Folds hard sigmoids into the layer before them, and quantizes results of layers that a sigmoid or tanh reads."""
    for node in fx.calls(module.graph, [aten.hardsigmoid.default, *INVERSES]):
        layer: Any = node.args[0]
        quantize = fx.single_user(node)
        if layer.target not in LAYERS or fx.single_user(layer) is None or quantize is None:
            continue
        if fx.conversion_name(quantize) != "quantize_per_tensor" or not _has_constant_weights(layer):
            continue
        if node.target in INVERSES:
            _quantize_until_saturation(node, layer, float(quantize.args[1]))  # type: ignore[arg-type]  # a number
        else:
            _fold_hard_sigmoid(node, layer)


def _has_constant_weights(layer: Node) -> bool:
    return fx.conversion_name(layer.args[1]).startswith("dequantize") and (
        len(layer.args) < 3 or layer.args[2] is None or fx.constant_of(layer.args[2]) is not None
    )


def _quantize_until_saturation(node: Node, layer: Node, scale: float) -> None:
    """Quantizes a layer's result in the range beyond which the activation's result is the same to half a step."""
    parameters = (INVERSES[node.target](1.0 - scale / 2) / FULL[1], 0, *FULL)  # type: ignore[index]  # an operator
    integers = fx.call(node, PER_TENSOR.quantize, layer, *parameters)
    node.update_arg(0, fx.call(node, PER_TENSOR.dequantize, integers, *parameters))


def _fold_hard_sigmoid(node: Node, layer: Node) -> None:
    """Replaces relu6(x + 3) / 6 by a clamp to 0 and 1 of a layer with a sixth of its weights, and its bias moved by a half."""
    weights: Any = layer.args[1]
    integers, scales, *others = weights.args
    if weights.target is PER_CHANNEL.dequantize:
        sixth: Any = fx.constant(layer, fx.evaluate_constant(scales) / 6, f"{weights.name}_scales")
    else:
        sixth = scales / 6
    layer.update_arg(1, fx.call(layer, weights.target, integers, sixth, *others))
    given = fx.evaluate_constant(layer.args[2]) if len(layer.args) > 2 and layer.args[2] is not None else None
    channels = fx.shape_of(layer)[-1 if layer.target is aten.linear.default else 1]
    before = torch.zeros(channels) if given is None else given
    bias = fx.constant(layer, before / 6 + 0.5, f"{layer.name}_bias")
    layer.args = (*layer.args[:2], bias, *layer.args[3:])
    fx.replace(node, fx.call(node, aten.clamp.default, layer, 0.0, 1.0))
