# SPDX-License-Identifier: Apache-2.0
"""Calls that stand in the graph only while a module is trained: a batch norm, and what simulates that it is folded.

A layer and the norm behind it are one layer on the device, whose weights are w · s with s = γ / √(variance + eps). So w · s is what
has to be rounded in training too (`scale_weight`), while the norm must see the layer's own result in order to keep its statistics
(`unscale`, which also adds the bias: it is not rounded with the weights)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SMALLEST_FACTOR = 2.0**-12
"""Smaller factors are simulated by this one: a channel whose γ is 0 can still learn, and nothing is divided by zero."""
UNTRACKED = -1.0
"""The momentum of a norm that computes with the statistics of the batch, and keeps its own as they are."""


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
    """Computes what `torch.nn.BatchNorm` computes; without momentum the statistics are averages over all batches."""
    if training and momentum == UNTRACKED:
        return F.batch_norm(x, None, None, weight, bias, training, 0.0, eps)
    if training and count is not None:
        count.add_(1)
        momentum = 1.0 / float(count) if momentum is None else momentum
    return F.batch_norm(x, mean, variance, weight, bias, training, momentum or 0.0, eps)


def factor(weight: Tensor | None, variance: Tensor, eps: float) -> Tensor:
    """Gives the factor by which a norm multiplies each channel."""
    scale = torch.rsqrt(variance + eps)
    return scale if weight is None else weight * scale


def safe_factor(weight: Tensor | None, variance: Tensor, eps: float) -> Tensor:
    """Gives the factor by which a norm multiplies each channel, kept away from zero."""
    exact = factor(weight, variance, eps)
    least = torch.where(exact < 0, -SMALLEST_FACTOR, SMALLEST_FACTOR)
    return torch.where(exact.abs() < SMALLEST_FACTOR, least, exact)


def scale_weight(weight: Tensor, factors: Tensor, transposed_groups: int = 0) -> Tensor:
    """Multiplies a layer's weights by a factor for each output channel: outputs are axis 0, in transposed convolutions axis 1 of
    each group."""
    if not transposed_groups:
        return weight * factors.reshape(-1, *[1] * (weight.dim() - 1))
    inputs, outputs = weight.shape[0] // transposed_groups, weight.shape[1]
    grouped = factors.reshape(transposed_groups, 1, outputs).expand(-1, inputs, -1).reshape(-1, outputs)
    return weight * grouped.reshape(*grouped.shape, *[1] * (weight.dim() - 2))


def unscale(y: Tensor, factors: Tensor, bias: Tensor | None) -> Tensor:
    """Gives what the layer would have given with its own weights and bias."""
    channels = [1, -1, *[1] * (y.dim() - 2)]
    y = y / factors.reshape(channels)
    return y if bias is None else y + bias.reshape(channels)
