# SPDX-License-Identifier: Apache-2.0
"""Merges the scaling of byte inputs, such as the normalization of pixels, and folds it into the layers that read it.
A scaling that cannot be folded is rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.common_type import uint8_to_real
from pillion.importers.torch.scalar_function import evaluate_steps, step_reference

SCALINGS = fx.torch_operators("add sub mul", "Tensor")
MOVES = (
    *fx.torch_operators("permute reshape flip"),
    aten.slice.Tensor,
    aten.upsample_bilinear2d.vec,
    aten.upsample_nearest2d.vec,
)
"""Calls that keep the steps of bytes."""


@dataclass(frozen=True)
class _Scaling:
    """Products and sums from one call to another as a factor and an offset, of each channel or of all."""

    start: Node
    end: Node
    factor: Tensor
    offset: Tensor
    count: int

    @property
    def is_uniform(self) -> bool:
        """Whether all channels have the same factor and offset."""
        return self.factor.numel() == self.offset.numel() == 1


def merge_pixel_scalings(module: GraphModule, *, training: bool = False) -> None:
    """Merges the scaling of bytes. In training, layers keep their weights."""
    for node in fx.calls(module.graph, [uint8_to_real]):
        scaling = _scaling_behind(node, training)
        if scaling is not None and not (not training and _fold_into_layers(scaling)) and scaling.count > 1:
            _merge(scaling)
    module.graph.eliminate_dead_code()


def _scaling_behind(bytes_: Node, training: bool) -> _Scaling | None:
    """Returns the scaling of bytes behind the moves that follow them; None if there is none."""
    start = bytes_
    while (user := fx.single_user(start)) is not None and user.target in MOVES:
        start = user
    found = _Scaling(start, start, torch.ones(1).double(), torch.zeros(1).double(), 0)
    while (user := fx.single_user(found.end)) is not None and user.target in SCALINGS:
        further = _extended(found, user, training)
        if further is None:
            break
        found = further
    return found if found.count else None


def _extended(scaling: _Scaling, node: Node, training: bool) -> _Scaling | None:
    """Returns a scaling with one more call; None if its other operand is not a number for each channel."""
    at = 0 if node.args[0] is scaling.end else 1
    tensor = fx.fixed_tensor(node.args[1 - at], training)
    shape = fx.shape_of(node)
    if tensor is None or shape != fx.shape_of(scaling.end) or tensor.numel() not in (1, *shape[1:2]):
        return None
    if tensor.numel() > 1 and (len(shape) != 4 or tuple(tensor.shape[-3:]) != (shape[1], 1, 1)):
        return None
    number, factor, offset = tensor.detach().double().reshape(-1), scaling.factor, scaling.offset
    if node.target is aten.mul.Tensor:
        factor, offset = factor * number, offset * number
    elif node.target is aten.add.Tensor:
        offset = offset + number
    else:
        factor, offset = (factor, offset - number) if at == 0 else (-factor, number - offset)
    return _Scaling(scaling.start, node, factor, offset, scaling.count + 1)


def _fold_into_layers(scaling: _Scaling) -> bool:
    """Folds a scaling into the convolutions that read it, if all can take it: padding is 0 before and after it."""
    layers = list(scaling.end.users)
    if not all(_can_absorb(layer, scaling) for layer in layers):
        return False
    for layer in layers:
        weight, bias = fx.constant_tensor(layer.args[1]).double(), fx.named_argument(layer, "bias")
        start = weight.new_zeros(len(weight)) if bias is None else fx.constant_tensor(bias).double()
        start = start + (weight.sum((2, 3)) * scaling.offset).sum(1)
        factors = (weight * scaling.factor.reshape(-1, 1, 1)).float()
        folded = fx.constant(layer, factors, f"{layer.name}_scaled")
        shifted = fx.constant(layer, start.float(), f"{layer.name}_scaled_bias")
        arguments = (scaling.start, folded, shifted, *layer.args[3:])
        fx.replace(
            layer, fx.call_like(layer, fx.fake_result(layer), aten.conv2d.default, *arguments, **layer.kwargs)
        )
    return True


def _can_absorb(layer: Node, scaling: _Scaling) -> bool:
    """Whether a scaling can be folded into a layer."""
    if layer.target is not aten.conv2d.default or layer.args[0] is not scaling.end:
        return False
    padding: Any = fx.named_argument(layer, "padding")
    is_padded = any(padding if isinstance(padding, (list, tuple)) else [padding])
    bias = fx.named_argument(layer, "bias")
    is_constant = fx.fixed_tensor(layer.args[1]) is not None and (
        bias is None or fx.fixed_tensor(bias) is not None
    )
    return (
        is_constant and fx.named_argument(layer, "groups") == 1 and not (is_padded and scaling.offset.any())
    )


def _merge(scaling: _Scaling) -> None:
    """Replaces a scaling by a table, or by a layer if channels differ."""
    end, start = scaling.end, scaling.start
    if scaling.is_uniform:
        steps = (
            ("mul.Tensor", (step_reference(0), scaling.factor.item()), ()),
            ("add.Tensor", (step_reference(1), scaling.offset.item()), ()),
        )
        fx.replace(end, fx.call(end, evaluate_steps, start, steps))
        return
    channels = fx.shape_of(end)[1]
    factors = scaling.factor.expand(channels).reshape(-1, 1, 1, 1).float()
    weight = fx.constant(end, factors, f"{end.name}_factor")
    bias = fx.constant(end, scaling.offset.expand(channels).float(), f"{end.name}_offset")
    layer = fx.call(end, aten.conv2d.default, start, weight, bias, [1, 1], [0, 0], [1, 1], channels)
    fx.replace(end, layer)
