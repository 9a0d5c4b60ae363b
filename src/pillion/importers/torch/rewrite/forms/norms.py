# SPDX-License-Identifier: Apache-2.0
"""Norms by the statistics of what they are given, and lengths of vectors.

Everything rests on `standardized` and on sums of squares, which are products of rows with themselves: exact in the accumulator of
a matrix product, where a square rounded to 8 bits would lose all that is small beside the largest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.nodes import aten, named_argument

Axes = int | Sequence[int] | None


def standardized(rows: Tensor, eps: float) -> Tensor:
    """Gives rows [N, L] with mean 0 and variance 1."""
    centred = rows - rows.mean(1, keepdim=True)
    return centred * torch.rsqrt(_mean_square(centred) + eps)


def scaled_to_one(rows: Tensor, eps: float) -> Tensor:
    """Gives rows [N, L] whose mean square is 1."""
    return rows * torch.rsqrt(_mean_square(rows) + eps)


def _mean_square(rows: Tensor) -> Tensor:
    """The mean square of each row [N, L], as [N, 1]."""
    return _dot(rows, rows) * (1 / rows.shape[1])


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The products of rows [N, L] with rows, as [N, 1]."""
    return torch.bmm(a.unsqueeze(1), b.unsqueeze(2)).reshape(-1, 1)


def _with_channels(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """y [N, C, …] times a weight and plus a bias for each channel, rounded once: a depthwise convolution of single pixels."""
    if weight is None and bias is None:
        return y
    channels = y.shape[1]
    factors = torch.ones(channels) if weight is None else weight
    image = y.reshape(y.shape[0], channels, -1, 1)
    return F.conv2d(image, factors.reshape(-1, 1, 1, 1), bias, groups=channels).reshape(y.shape)


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    rows = standardized(x.reshape(-1, math.prod(normalized_shape)), eps)
    flat = [None if held is None else held.reshape(-1) for held in (weight, bias)]
    return _with_channels(rows, *flat).reshape(x.shape)


def _rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    smallest = torch.finfo(torch.float32).eps if eps is None else eps
    rows = scaled_to_one(x.reshape(-1, math.prod(normalized_shape)), smallest)
    return _with_channels(rows, None if weight is None else weight.reshape(-1), None).reshape(x.shape)


def _group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    rows = standardized(x.reshape(x.shape[0] * num_groups, -1), eps)
    return _with_channels(rows.reshape(x.shape), weight, bias)


def _instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """By the statistics of each image, or those that training has kept: then it is a batch norm."""
    if not use_input_stats:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    return _group_norm(x, x.shape[1], weight, bias, eps)


def _axes(x: Tensor, dim: Axes) -> list[int]:
    """The axes that a reduction goes over; all of them, where none are given."""
    if dim is None or dim in ((), []):
        return list(range(x.dim()))
    return [d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)]


def _rows(x: Tensor, dim: Axes) -> Tensor:
    """A tensor as rows over some axes."""
    axes = _axes(x, dim)
    kept = [axis for axis in range(x.dim()) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    return x.permute(*kept, *axes).reshape(-1, count)


def _reduced(x: Tensor, rows: Tensor, dim: Axes, keepdim: bool) -> Tensor:
    """One number for each row in the shape of a reduction of x."""
    axes = _axes(x, dim)
    sizes = [
        (1 if axis in axes else size) for axis, size in enumerate(x.shape) if keepdim or axis not in axes
    ]
    return rows.reshape(sizes)


def _variance(
    x: Tensor, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    rows = _rows(x, dim)
    centred = rows - rows.mean(1, keepdim=True)
    divisor = rows.shape[1] - (1 if correction is None else correction)
    return _reduced(x, _dot(centred, centred) * (1 / divisor), dim, keepdim)


def _deviation(x: Tensor, dim: Axes = None, **options: Any) -> Tensor:
    return torch.sqrt(_variance(x, dim, **options))


def _beside_mean(statistic: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def form(
        x: Tensor, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:
        mean = x.mean(_axes(x, dim), keepdim=keepdim)
        return statistic(x, dim, correction=correction, keepdim=keepdim), mean

    return form


def _length(
    x: Tensor, ord: float = 2, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    axes = _axes(x, dim)
    if ord == 2:
        rows = _rows(x, dim)
        return _reduced(x, torch.sqrt(_dot(rows, rows)), dim, keepdim)
    if ord == 1:
        return x.abs().sum(axes, keepdim=keepdim)
    if ord == math.inf:
        return x.abs().amax(axes, keepdim=keepdim)
    if ord == -math.inf:
        return x.abs().amin(axes, keepdim=keepdim)
    return (x.abs() ** ord).sum(axes, keepdim=keepdim) ** (1 / ord)


def _is_a_length(node: Node) -> bool:
    return bool(named_argument(node, "ord") != 0)


def _cosine(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = a.expand(shape), b.expand(shape)
    left, right = _rows(a, dim), _rows(b, dim)
    lengths = [torch.sqrt(_dot(rows, rows)).clamp(min=eps) for rows in (left, right)]
    return _reduced(a, _dot(left, right) / (lengths[0] * lengths[1]), dim, False)


def _norm(x: Tensor, p: float | None = 2, dim: Axes = None, keepdim: bool = False) -> Tensor:
    return _length(x, 2 if p is None else p, dim, keepdim)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.cosine_similarity.default: _cosine,
    aten.group_norm.default: _group_norm,
    aten.instance_norm.default: _instance_norm,
    aten.layer_norm.default: _layer_norm,
    aten.linalg_vector_norm.default: _length,
    aten.norm.Scalar: _norm,
    aten.norm.ScalarOpt_dim: _norm,
    aten.rms_norm.default: _rms_norm,
    aten.std.correction: _deviation,
    aten.std_mean.correction: _beside_mean(_deviation),
    aten.var.correction: _variance,
    aten.var_mean.correction: _beside_mean(_variance),
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    aten.linalg_vector_norm.default: _is_a_length,
}
