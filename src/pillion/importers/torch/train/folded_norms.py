# SPDX-License-Identifier: Apache-2.0
"""Simulates folded batch norms in training, and folds them before conversion.

torchao's simulation is not used: it ignores eps and momentum, divides by zero for γ = 0, lacks grouped
transposed convolutions, and takes 25 seconds per conversion."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.batch_norm import (
    LAYERS,
    Affine,
    affine_of,
    as_native_norm,
    foldable_layer,
    image_shape,
    shared_norms,
    transposed_groups,
)
from pillion.importers.torch.train.batch_norm_calls import (
    batch_norm,
    factor,
    safe_factor,
    scale_weight,
    undo_weight_scaling,
)
from pillion.importers.torch.train.trained_ranges import SMALLEST_SCALE, ChannelRangeObserver


def make_trainable(module: GraphModule) -> None:
    """Replaces norms with running statistics by trainable calls; norms that no layer absorbs get 4-d input."""
    norms = fx.calls(module.graph, [aten.batch_norm.default])
    shared = shared_norms(module.graph)
    alone = {norm: simulated_layer(norm, shared) is None for norm in norms}
    for norm in norms:
        if affine_of(norm) is None:
            fx.replace(norm, as_native_norm(norm))
        else:
            fx.replace(norm, _build_trainable_norm(module, norm, alone[norm]))


def simulated_layer(norm: Node, shared: Container[Node]) -> Node | None:
    """Returns the layer that will absorb a norm. Layers with shared weights cannot."""
    layer = foldable_layer(norm, shared)
    return layer if layer is not None and fx.single_user(layer.args[1]) is layer else None  # type: ignore[arg-type]  # a node


def _build_trainable_norm(module: GraphModule, norm: Node, alone: bool) -> Node:
    source: Any = norm.args[0]
    shape = fx.shape_of(source)
    reshaped = alone and len(shape) != 4
    x = fx.call(norm, aten.reshape.default, source, image_shape(shape)) if reshaped else source
    arguments = [fx.argument_of(norm, i) for i in range(1, 8)]
    y = fx.call(norm, batch_norm, x, *arguments, _batch_counter(module, norm))
    return fx.call(norm, aten.reshape.default, y, list(shape)) if reshaped else y


def _batch_counter(module: GraphModule, norm: Node) -> Node | None:
    """Returns the buffer in which torch's modules count batches."""
    mean: Any = norm.args[3]
    path, _, _ = str(mean.target).rpartition(".")
    counter = getattr(module.get_submodule(path), "num_batches_tracked", None)
    if not isinstance(counter, Tensor):
        return None
    with module.graph.inserting_before(norm):
        node = module.graph.get_attr(f"{path}.num_batches_tracked" if path else "num_batches_tracked")
    node.meta["val"] = fx.fake_mode(module.graph).from_tensor(counter, static_shapes=True)
    return node


def simulate_folding(prepared: GraphModule) -> bool:
    """Inserts the simulation between fake-quantized layers and their norms. Returns whether the graph changed."""
    pairs = [(norm, norm.args[0]) for norm in fx.calls(prepared.graph, [batch_norm])]
    pairs = [(norm, layer) for norm, layer in pairs if isinstance(layer, Node) and layer.target in LAYERS]
    for norm, layer in pairs:
        _simulate_folded_layer(norm, layer)
    if pairs:
        prepared.recompile()
    return bool(pairs)


def _simulate_folded_layer(norm: Node, layer: Any) -> None:
    rounding, bias = layer.args[1], fx.argument_of(layer, 2)
    for read in (n for n in (norm.args[1], norm.args[4], bias) if isinstance(n, Node)):
        next(iter(read.graph.nodes)).prepend(read)  # parameters are read in front
    layer.prepend(rounding)
    factors = fx.call(rounding, safe_factor, norm.args[1], norm.args[4], norm.args[7])
    rounding.args = (fx.call(rounding, scale_weight, rounding.args[0], factors, transposed_groups(layer)),)
    layer.args = (*layer.args[:2], None, *layer.args[3:])
    norm.replace_input_with(layer, fx.call(norm, undo_weight_scaling, layer, factors, bias))


def fold_trained_norms(prepared: GraphModule) -> bool:
    """Folds norms into their layers or makes them depthwise convolutions. Returns whether the graph changed. Weights
    become the simulation's rounded weights. The module must be in eval mode."""
    norms = fx.calls(prepared.graph, [batch_norm])
    for norm in norms:
        affine, source = affine_of(norm), norm.args[0]
        if affine is None or not isinstance(source, Node):
            raise ValueError(f"{norm.format_node()} is still in training")
        if source.target is undo_weight_scaling:
            _fold_batch_norm(prepared, norm, source, affine)
        elif len(fx.shape_of(norm)) == 4 and source.op == "call_module":
            _make_depthwise(prepared, norm, affine)
        else:
            fx.replace(norm, as_native_norm(norm))
    if norms:
        prepared.graph.eliminate_dead_code()
        prepared.recompile()
    return bool(norms)


def _fold_batch_norm(prepared: GraphModule, norm: Node, undo: Any, affine: Affine) -> None:
    layer, _, bias = undo.args
    rounding = layer.args[1]
    weight, variance = fx.constant_tensor(rounding.args[0].args[0]), fx.constant_tensor(norm.args[4])
    gamma = fx.constant_of(norm.args[1])
    with torch.no_grad():
        folded = scale_weight(weight, factor(gamma, variance, norm.args[7]), transposed_groups(layer))  # type: ignore[arg-type]  # eps is a number
        offset = (
            affine.offset
            if bias is None
            else affine.offset + fx.constant_tensor(bias).double() * affine.factor
        )
    rounding.args = (fx.constant(rounding, folded, f"{layer.name}_folded"),)
    _reset_weight_range(prepared, rounding, folded)
    folded_bias = fx.constant(layer, offset.to(weight.dtype), f"{layer.name}_folded_bias")
    layer.args = (*layer.args[:2], folded_bias, *layer.args[3:])
    fx.replace(norm, layer)
    prepared.graph.erase_node(undo)


def _reset_weight_range(prepared: GraphModule, rounding: Node, weight: Tensor) -> None:
    """Resets the observed range to the folded weights', which may lie below the simulated SMALLEST_FACTOR."""
    observer: Any = prepared.get_submodule(str(rounding.target)).activation_post_process
    observer.reset_min_max_vals()
    observer(weight)


def _make_depthwise(prepared: GraphModule, norm: Node, affine: Affine) -> None:
    """Changes the call in place, which keeps its observers."""
    channels = affine.factor.numel()
    weight = fx.constant(norm, affine.factor.float().reshape(-1, 1, 1, 1), f"{norm.name}_factor")
    bias = fx.constant(norm, affine.offset.float(), f"{norm.name}_offset")
    rounding = _observed_weight(prepared, norm, weight)
    norm.target = aten.conv2d.default
    norm.args = (norm.args[0], rounding, bias, [1, 1], [0, 0], [1, 1], channels)


def _observed_weight(prepared: GraphModule, norm: Node, weight: Node) -> Node:
    observer: Any = ChannelRangeObserver(
        dtype=torch.int8,
        qscheme=torch.per_channel_symmetric,
        quant_min=-127,
        quant_max=127,
        eps=SMALLEST_SCALE,
    )
    observer(fx.constant_tensor(weight))
    name = f"{norm.name}_observer"
    prepared.add_submodule(name, observer)
    with prepared.graph.inserting_before(norm):
        return prepared.graph.call_module(name, (weight,))
