# SPDX-License-Identifier: Apache-2.0
"""Decomposes vector norms, variances, and instance norms with running statistics (norms by input statistics:
`norm_calls.py`).

Sums of squares are products of rows with themselves: exact in the accumulator of a matrix product, where
squares rounded to 8 bits would lose small values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.importers.torch.fx_nodes import aten, named_argument
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

Axes = int | Sequence[int] | None


def _rowwise_dot_product(a: Tensor, b: Tensor) -> Tensor:
    """Returns the dot products of rows [N, L] as [N, 1]."""
    return torch.bmm(a.unsqueeze(1), b.unsqueeze(2)).reshape(-1, 1)


def _reduction_axes(x: Tensor, dim: Axes) -> list[int]:
    """Axes of a reduction; all axes by default."""
    if dim is None or dim in ((), []):
        return list(range(x.dim()))
    return [d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)]


def _flatten_to_rows(x: Tensor, dim: Axes) -> Tensor:
    """Flattens the reduced axes into rows [N, L]."""
    axes = _reduction_axes(x, dim)
    remaining = [axis for axis in range(x.dim()) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    return x.permute(*remaining, *axes).reshape(-1, count)


def _reshape_like_reduced(x: Tensor, rows: Tensor, dim: Axes, keepdim: bool) -> Tensor:
    """Reshapes one number per row to the reduction's shape."""
    axes = _reduction_axes(x, dim)
    sizes = [
        (1 if axis in axes else size) for axis, size in enumerate(x.shape) if keepdim or axis not in axes
    ]
    return rows.reshape(sizes)


def _variance(
    x: Tensor, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    rows = _flatten_to_rows(x, dim)
    centred = rows - rows.mean(1, keepdim=True)
    divisor = rows.shape[1] - (1 if correction is None else correction)
    return _reshape_like_reduced(x, _rowwise_dot_product(centred, centred) * (1 / divisor), dim, keepdim)


def _with_mean(statistic: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def decomposed(
        x: Tensor, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:
        mean = x.mean(_reduction_axes(x, dim), keepdim=keepdim)
        return statistic(x, dim, correction=correction, keepdim=keepdim), mean

    return decomposed


def _decompose_vector_norm(
    x: Tensor, ord: float = 2, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    axes = _reduction_axes(x, dim)
    if ord == 2:
        rows = _flatten_to_rows(x, dim)
        return _reshape_like_reduced(x, torch.sqrt(_rowwise_dot_product(rows, rows)), dim, keepdim)
    if ord == 1:
        return x.abs().sum(axes, keepdim=keepdim)
    if ord == math.inf:
        return x.abs().amax(axes, keepdim=keepdim)
    if ord == -math.inf:
        return x.abs().amin(axes, keepdim=keepdim)
    if ord > 2:  # a power in 8 bits would lose all values that are small against the largest
        return _decompose_vector_norm(x.abs() ** (ord / 2), 2, dim, keepdim) ** (2 / ord)
    return (x.abs() ** ord).sum(axes, keepdim=keepdim) ** (1 / ord)


decompose_by(
    lambda x, weight, bias, mean, variance, _, momentum, eps, __: F.batch_norm(
        x, mean, variance, weight, bias, False, momentum, eps
    ),
    aten.instance_norm.default,
)
decompose_by(
    _decompose_vector_norm,
    aten.linalg_vector_norm.default,
    when=lambda node: named_argument(node, "ord") != 0,
)
decompose_by(_with_mean(torch.std), aten.std_mean.correction)
decompose_by(_variance, aten.var.correction)
decompose_by(_with_mean(torch.var), aten.var_mean.correction)
