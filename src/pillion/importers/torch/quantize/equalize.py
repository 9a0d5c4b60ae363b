# SPDX-License-Identifier: Apache-2.0
"""Equalizes channel ranges between layers without changing the float result.

A tensor has one scale, so channels with small ranges keep few int8 steps. Between two layers joined by
functions with f(s x) = s f(x), a channel can be divided by s in the producer and multiplied by s in the
consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.fx_nodes import (
    argument_of,
    aten,
    calls,
    constant,
    constant_of,
    constant_tensor,
    shape_of,
    single_user,
)
from pillion.importers.torch.loop_nodes import LoopInterpreter

LAYERS: dict[Any, int] = {aten.linear.default: -1, aten.conv1d.default: 1, aten.conv2d.default: 1}
"""Layers with output channels along the weights' first axis, and the channel axis of their results."""
ACTIVATIONS = (aten.relu.default, aten.leaky_relu.default)
WINDOWS = (aten.max_pool2d.default, aten.avg_pool2d.default)
FARTHEST = 2.0**20
"""Largest factor; channels beyond it are practically silent."""


@dataclass(frozen=True)
class LayerPair:
    """Two layers; the second one reads the channels of the first."""

    maker: Node
    seen: Node
    """Quantized tensor between them: the producer's result behind its activation."""
    reader: Node
    repeats: int = 1
    """Inputs of the consumer per channel: the pixels of a flattened image."""


@one_thread()
def equalize(module: GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> int:
    """Equalizes the channels between all suitable layers. Returns the number of pairs."""
    pairs = [pair for pair in map(_layer_pair, calls(module.graph, LAYERS)) if pair is not None]
    reach = _channel_maxima(module, {pair.seen: LAYERS[pair.maker.target] for pair in pairs}, samples)
    for pair in pairs:
        _scale_layer_pair(pair, _channel_divisors(pair, reach[pair.seen]))
    module.recompile()
    return len(pairs)


def _layer_pair(maker: Node) -> LayerPair | None:
    """Returns a layer with its only consumer; None if it has no suitable one."""
    if not _has_own_constants(maker) or (LAYERS[maker.target] == 1 and len(shape_of(maker)) < 3):
        return None
    node, seen, repeats = maker, maker, 1
    while (user := single_user(node)) is not None and user.args[0] is node:
        if user.target in LAYERS:
            return LayerPair(maker, seen, user, repeats) if _reads_channels(user, maker, repeats) else None
        if user.target in ACTIVATIONS and node is seen:
            seen = user
        elif user.target is aten.reshape.default:
            repeats = _pixels_per_channel(user, maker)
        elif user.target not in (*ACTIVATIONS, *WINDOWS) and not _is_mean_of_pixels(user, maker):
            return None
        if repeats == 0:
            return None
        node = user
    return None


def _pixels_per_channel(reshape: Node, maker: Node) -> int:
    """Elements of each channel in a flattened image; 0 for other reshapes."""
    before, after = shape_of(reshape.args[0]), shape_of(reshape)  # type: ignore[arg-type]  # the schema says tensor
    is_image = LAYERS[maker.target] == 1 and len(before) > 2 and before[:2] == (after[0], shape_of(maker)[1])
    flat = len(after) == 2 and after[1] % before[1] == 0 if is_image else False
    return after[1] // before[1] if flat else 0


def _is_mean_of_pixels(node: Node, maker: Node) -> bool:
    if node.target is not aten.mean.dim or LAYERS[maker.target] != 1:
        return False
    rank = len(shape_of(node.args[0]))  # type: ignore[arg-type]  # the schema says tensor
    axes: Any = node.args[1]
    return rank > 2 and not {axis % rank for axis in axes} & {0, 1}


def _has_own_constants(layer: Node) -> bool:
    """Whether weights and bias are constants that nothing else reads."""
    constants = [layer.args[1], argument_of(layer, 2)]
    return all(
        isinstance(n, Node) and constant_of(n) is not None and single_user(n) is layer
        for n in constants
        if n is not None
    )


def _reads_channels(reader: Node, maker: Node, repeats: int) -> bool:
    """Whether the consumer's inputs are the producer's channels."""
    if not _has_own_constants(reader):
        return False
    weight: Any = reader.args[1]
    groups = 1 if reader.target is aten.linear.default else int(argument_of(reader, 6))
    inputs = shape_of(weight)[1] * groups
    of_images = LAYERS[maker.target] == 1
    fits = (reader.target is not aten.linear.default) == (len(shape_of(reader)) > 2 and of_images)
    if reader.target is aten.linear.default and of_images:
        fits = len(shape_of(reader.args[0])) == 2  # type: ignore[arg-type]  # the schema says tensor
    return fits and inputs == _output_count(maker) * repeats


def _output_count(layer: Node) -> int:
    weight: Any = layer.args[1]
    return shape_of(weight)[0]


def _channel_maxima(
    module: GraphModule, axes: dict[Node, int], samples: Sequence[tuple[Tensor, ...]]
) -> dict[Node, Tensor]:
    """Returns the largest magnitude of each channel over all samples."""
    found: dict[Node, Tensor] = {}

    def record(node: Node, value: Any) -> None:
        if node in axes:
            channels = value.abs().movedim(axes[node], 0).flatten(1).amax(1)
            found[node] = torch.maximum(found.get(node, channels), channels)

    with torch.no_grad():
        for sample in samples if axes else ():
            LoopInterpreter(module, record).run(*sample)
    return found


def _channel_divisors(pair: LayerPair, reach: Tensor) -> Tensor:
    """Divisors of the channels: full equalization if each output reads one channel; otherwise the geometric mean of
    the needs of activations and weights."""
    weight, groups = _weight_and_axis(pair.reader)
    inputs = weight.shape[1]
    if inputs == 1:
        ratios = reach
    else:
        rows = weight.reshape(groups, weight.shape[0] // groups, inputs, -1).abs().amax(3)
        relative = rows / rows.amax(2, keepdim=True).clamp(min=1e-30)
        columns = relative.amax(1).reshape(-1, pair.repeats).amax(1)
        ratios = torch.sqrt(reach / columns.clamp(min=1e-30)) * (columns > 0)
    useful = (ratios > 0) & torch.isfinite(ratios)
    if not bool(useful.any()):
        return torch.ones_like(reach)
    middle = torch.exp(torch.log(ratios[useful].double()).mean()).float()
    factors = (ratios / middle).clamp(1 / FARTHEST, FARTHEST)
    return torch.where(useful, factors, torch.ones_like(factors))


def _weight_and_axis(layer: Node) -> tuple[Tensor, int]:
    return constant_tensor(layer.args[1]), 1 if layer.target is aten.linear.default else int(
        argument_of(layer, 6)
    )


def _scale_layer_pair(pair: LayerPair, factors: Tensor) -> None:
    """Divides the producer's outputs and multiplies the consumer's inputs."""
    weight, _ = _weight_and_axis(pair.maker)
    _replace_constant(pair.maker, 1, weight / factors.reshape(-1, *[1] * (weight.dim() - 1)))
    bias = argument_of(pair.maker, 2)
    if bias is not None:
        _replace_constant(pair.maker, 2, constant_tensor(bias) / factors)
    weight, groups = _weight_and_axis(pair.reader)
    columns = factors.repeat_interleave(pair.repeats).reshape(groups, 1, weight.shape[1])
    spread = columns.expand(-1, weight.shape[0] // groups, -1).reshape(weight.shape[:2])
    _replace_constant(pair.reader, 1, weight * spread.reshape(*spread.shape, *[1] * (weight.dim() - 2)))


def _replace_constant(layer: Node, position: int, tensor: Tensor) -> None:
    """Replaces a layer's constant by a copy of its own."""
    old: Any = argument_of(layer, position)
    new = constant(layer, tensor.contiguous(), f"{old.name}_equalized")
    layer.args = (*layer.args[:position], new, *layer.args[position + 1 :])
