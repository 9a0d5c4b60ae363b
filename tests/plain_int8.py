# SPDX-License-Identifier: Apache-2.0
"""A plain simulation of int8 to compare with: what each call of PyTorch gives is rounded to 256 levels between its own least and
largest value on the same data, weights of layers with a scale for each channel. It knows nothing of Pillion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from pillion.ir.types import Array

CHANNEL_AXIS: Mapping[Callable[..., Any], int] = {
    torch.conv1d: 0,
    torch.conv2d: 0,
    torch.conv3d: 0,
    F.linear: 0,
    torch.conv_transpose1d: 1,
    torch.conv_transpose2d: 1,
}
"""Layers, and the axis of the channels in their weights."""


def rounded(tensor: Tensor) -> Tensor:
    """Rounds a tensor to 256 levels between its least and its largest value, one of which is 0."""
    low, high = min(float(tensor.min()), 0.0), max(float(tensor.max()), 0.0)
    scale = max((high - low) / 255, 1e-12)
    return torch.fake_quantize_per_tensor_affine(tensor, scale, round(-128 - low / scale), -128, 127)


def rounded_weights(weights: Tensor, axis: int) -> Tensor:
    """Rounds weights to 255 levels around 0 in each channel."""
    others = [i for i in range(weights.dim()) if i != axis]
    scales = weights.abs().amax(others).clamp(min=1e-12) / 127
    zeros = torch.zeros_like(scales, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weights, scales, zeros, axis, -127, 127)


class PlainInt8(TorchFunctionMode):
    """While it is entered, calls of PyTorch's functions round."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if func in CHANNEL_AXIS and len(args) > 1:
            args = (args[0], rounded_weights(args[1].detach(), CHANNEL_AXIS[func]), *args[2:])
        result = func(*args, **(kwargs or {}))
        if name.startswith("__get") or (name.endswith("_") and not name.startswith("__")):
            return result
        return pytree.tree_map(_rounded_if_real, result)


def _rounded_if_real(held: Any) -> Any:
    if not isinstance(held, Tensor) or not held.is_floating_point() or not held.numel():
        return held
    return rounded(held) if bool(torch.isfinite(held).all()) else held


def plain_answers(module: nn.Module, inputs: Sequence[Tensor]) -> list[Array]:
    """Computes a module in the simulation."""
    with torch.no_grad(), PlainInt8():
        return arrays_of(module(*(rounded(x) for x in inputs)))


def arrays_of(result: Any) -> list[Array]:
    """Gives the tensors of a result as arrays."""
    leaves = pytree.tree_leaves(result)
    return [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, Tensor)]


def decibels(wanted: Array, found: Array) -> float:
    """Returns the signal to noise ratio: 200 without a difference, -200 for a result that is not finite."""
    noise = float(((wanted.astype(np.float64) - found) ** 2).sum())
    signal = float((wanted.astype(np.float64) ** 2).sum())
    if not math.isfinite(noise):
        return -200.0
    return 10 * math.log10(signal / noise) if signal * noise else (200.0 if not noise else -200.0)
