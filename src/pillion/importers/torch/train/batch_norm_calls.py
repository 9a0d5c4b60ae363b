# SPDX-License-Identifier: Apache-2.0
"""Batch norm calls of graphs in training, and the simulation of their folding.

On the device, a layer and its norm are one layer with weights w · s, s = γ / √(variance + eps). So training
rounds w · s (`scale_weight`), while the norm sees the layer's own result (`unscale`, which also adds the
unrounded bias)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SMALLEST_FACTOR = 2.0**-12
"""Smallest simulated factor: channels with γ = 0 can still learn, and no division by zero occurs."""
UNTRACKED = -1.0
"""Momentum of a norm that uses batch statistics and keeps its running ones."""


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    training: bool,
    momentum: float | None,
    eps: float,
    count: Tensor | None = None,
) -> Tensor:
    """Computes `torch.nn.BatchNorm`; without momentum, statistics average over all batches."""
    if training and momentum == UNTRACKED:
        return F.batch_norm(x, None, None, weight, bias, training, 0.0, eps)
    if training and count is not None:
        count.add_(1)
        momentum = 1.0 / float(count) if momentum is None else momentum
    return F.batch_norm(x, mean, variance, weight, bias, training, momentum or 0.0, eps)


def factor(weight: Tensor | None, variance: Tensor, eps: float) -> Tensor:
    """Returns a norm's factor of each channel."""
    scale = torch.rsqrt(variance + eps)
    return scale if weight is None else weight * scale


def safe_factor(weight: Tensor | None, variance: Tensor, eps: float) -> Tensor:
    """Returns a norm's factor of each channel, kept away from zero."""
    exact = factor(weight, variance, eps)
    least = torch.where(exact < 0, -SMALLEST_FACTOR, SMALLEST_FACTOR)
    return torch.where(exact.abs() < SMALLEST_FACTOR, least, exact)


def scale_weight(weight: Tensor, factors: Tensor, transposed_groups: int = 0) -> Tensor:
    """Scales a layer's weights per output channel: axis 0, or axis 1 of each group of a transposed convolution."""
    if not transposed_groups:
        return weight * factors.reshape(-1, *[1] * (weight.dim() - 1))
    inputs, outputs = weight.shape[0] // transposed_groups, weight.shape[1]
    grouped = factors.reshape(transposed_groups, 1, outputs).expand(-1, inputs, -1).reshape(-1, outputs)
    return weight * grouped.reshape(*grouped.shape, *[1] * (weight.dim() - 2))


def undo_weight_scaling(y: Tensor, factors: Tensor, bias: Tensor | None) -> Tensor:
    """Reverts `scale_weight` on the layer's result and adds the bias."""
    channels = [1, -1, *[1] * (y.dim() - 2)]
    y = y / factors.reshape(channels)
    return y if bias is None else y + bias.reshape(channels)
