# SPDX-License-Identifier: Apache-2.0
"""Finds Fourier transforms written as layers: convolutions of samples, or products with frames, whose weights are
windowed cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.sample_frames import MOVES, frames_of, has_16_bits
from pillion.ir.constraints import QuantizationConstraints
from pillion.ops.frames import LEAST_POINTS, MOST_POINTS

LAYERS = (aten.conv1d.default, aten.linear.default, aten.mm.default)
NEAR = 1e-4
"""The largest deviation of weights from waves, in parts of the largest weight: they may be float32."""
FEW = 4
"""Rows of weights that are compared with waves before all are: most layers are no transforms."""
IMAGINARY_0 = 1
"""The place of a part that is always 0: the imaginary part of the first bin."""


@dataclass(frozen=True)
class WaveLayer:
    """A layer that may be a transform, or a part of one: the samples or frames that it reads, its weights [results,
    samples of a frame], and hop and padding of a convolution (a hop of 0 if it reads frames)."""

    node: Node
    x: Node
    waves: Tensor
    hop: int = 0
    padding: int = 0


@dataclass(frozen=True)
class Waves:
    """The window and points of a transform, and which of its parts each row of weights computes, times which factor."""

    window: Tensor
    points: int
    places: Tensor
    factors: Tensor


def find_transforms(
    module: GraphModule, constraints: QuantizationConstraints | None, *, training: bool
) -> None:
    """Replaces layers by the transforms that they compute, if signals may enter in 16 bits."""
    if training or constraints is None or not constraints.int16_inputs:
        return
    groups: dict[tuple[object, ...], list[WaveLayer]] = {}
    for node in fx.calls(module.graph, LAYERS):
        layer = _layer(node)
        if layer is not None:
            key = _signal(layer.x), layer.hop, layer.padding, layer.waves.shape[1]
            groups.setdefault(key, []).append(layer)
    for layers in groups.values():
        waves = _waves([layer.waves.double() for layer in layers])
        if waves is not None:
            _replace(layers, waves)
    module.graph.eliminate_dead_code()


def _signal(x: Any) -> object:
    """Returns a key that is equal for equal moves of one signal."""
    if isinstance(x, Node) and x.op == "call_function" and getattr(x.target, "overloadpacket", None) in MOVES:
        return x.target, *map(_signal, x.args)
    return x if isinstance(x, Node) else repr(x)


def _layer(node: Node) -> WaveLayer | None:
    x: Any = node.args[0]
    weights = node.args[1]
    if not fx.is_tensor(x) or not fx.is_constant(weights) or fx.argument_of(node, 2) is not None:
        return None
    held = fx.evaluate_constant(weights).detach()
    if node.target is not aten.conv1d.default:
        if held.dim() != 2:
            return None
        if x.target is aten.view.default and fx.shape_of(x)[-1] == fx.shape_of(x.args[0])[-1]:
            x = x.args[0]  # products of matrices read frames of all signals in one row
        return WaveLayer(node, x, held if node.target is aten.linear.default else held.t())
    hop, padding, dilation = (
        fx.per_axis(fx.argument_of(node, at, one), 1)[0] for at, one in ((3, 1), (4, 0), (5, 1))
    )
    return WaveLayer(node, x, held[:, 0], hop, padding) if fx.shape_of(x)[-2] == dilation == 1 else None


def _waves(layers: Sequence[Tensor]) -> Waves | None:
    """Returns the transform that these layers compute together, if they are at least as many as its bins; otherwise
    None. The first wave of one of the layers is constant under the window."""
    rows = torch.cat(list(layers))
    count, size = rows.shape
    points = max(LEAST_POINTS, 1 << (size - 1).bit_length())
    while points <= min(MOST_POINTS, 2 * (count - 1)):
        for window in (next((row for row in layer if row.any()), None) for layer in layers):
            if window is None or _match(rows[-FEW:], window, points) is None:
                continue
            found = _match(rows, window, points)
            if found is not None and len(set(found.places.tolist())) > points // 2:
                return found
        points *= 2
    return None


def _match(rows: Tensor, window: Tensor, points: int) -> Waves | None:
    angles = torch.arange(points // 2 + 1)[:, None] * torch.arange(len(window)) * (2 * math.pi / points)
    waves = torch.stack([torch.cos(angles), -torch.sin(angles)], 1).reshape(-1, len(window)) * window
    energies = waves.square().sum(1)
    products = rows @ waves.t()
    divisors = energies.clamp(min=NEAR * float(energies.max()))
    explained = products.square() / divisors
    places = explained.argmax(1)
    factors = products.gather(1, places[:, None])[:, 0] / divisors[places]
    is_zero = rows.abs().amax(1) <= NEAR * rows.abs().max()
    places[is_zero], factors[is_zero] = IMAGINARY_0, 0.0
    is_near = (rows - factors[:, None] * waves[places]).abs() <= NEAR * rows.abs().max()
    return Waves(window, points, places, factors) if bool(is_near.all()) else None


def _replace(layers: Sequence[WaveLayer], waves: Waves) -> None:
    first, size = layers[0], len(waves.window)
    before, frames = first.node, first.x
    for layer in layers:
        layer.node.replace_input_with(layer.x, first.x)
    before.graph.eliminate_dead_code()
    if not first.hop and len(frames.users) != len(layers):
        return
    if first.hop:
        if first.padding:
            frames = fx.call(before, aten.constant_pad_nd.default, frames, [first.padding] * 2)
        frames = fx.call(before, aten.unfold.default, frames, -1, size, first.hop)
    if bool((waves.window != 1).any()):
        window = fx.constant(before, waves.window.to(torch.float32), f"{before.name}_window")
        frames = fx.call(before, aten.mul.Tensor, frames, window)
    if waves.points > size:
        frames = fx.call(before, aten.constant_pad_nd.default, frames, [0, waves.points - size])
    axis = len(fx.shape_of(frames)) - 1
    root = fx.call(before, aten._fft_r2c.default, frames, [axis], 0, True)
    found = frames_of(root)
    if found is None or not has_16_bits(found.x, [layer.node for layer in layers]):
        return
    pairs = fx.call(before, aten.view_as_real.default, root)
    parts = fx.call(before, aten.reshape.default, pairs, [*fx.shape_of(root)[:-1], -1])
    start = 0
    for layer in layers:
        rows = slice(start, start := start + len(layer.waves))
        y = _results(layer, parts, waves.places[rows], waves.factors[rows])
        fx.replace(layer.node, fx.call(layer.node, aten.reshape.default, y, list(fx.shape_of(layer.node))))


def _results(layer: WaveLayer, parts: Node, places: Tensor, factors: Tensor) -> Node:
    """Returns the results of a layer, picked from the parts of a transform [..., frames, parts]."""
    node, name = layer.node, f"{layer.node.name}_waves"
    y = fx.call(
        node, aten.index_select.default, parts, len(fx.shape_of(parts)) - 1, fx.constant(node, places, name)
    )
    used = factors[factors != 0]
    if not torch.allclose(used, used[:1], rtol=NEAR):
        y = fx.call(node, aten.mul.Tensor, y, fx.constant(node, factors.to(torch.float32), name))
    elif not torch.allclose(used, torch.ones_like(used), rtol=NEAR):
        y = fx.call(node, aten.mul.Tensor, y, float(used[0]))
    return fx.call(node, aten.transpose.int, y, -1, -2) if layer.hop else y
