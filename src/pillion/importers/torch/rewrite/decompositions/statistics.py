# SPDX-License-Identifier: Apache-2.0
"""Decomposes quantiles, medians and extremes, and tests for values that int8 lacks (NaN, infinity)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, value_of
from pillion.importers.torch.rewrite.decompositions.pools import reads_values_only

Axes = int | list[int] | None


def _median(x: Tensor) -> Tensor:
    return x.reshape(-1).median(0)[0]


def _extremes(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axes = list(range(x.dim())) if dim is None else [dim]
    return x.amin(axes, keepdim=keepdim), x.amax(axes, keepdim=keepdim)


def _running(larger: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Computes running extremes: each element meets those 1, 2, 4, … places before it."""

    def form(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        step, size = 1, x.shape[dim]
        while step < size:
            first = x.narrow(dim, 0, step)
            met = larger(x.narrow(dim, step, size - step), x.narrow(dim, 0, size - step))
            x, step = torch.cat([first, met], dim), 2 * step
        return x, torch.zeros_like(x, dtype=torch.int64)

    return form


def _is_real(node: Node) -> bool:
    x: Any = node.args[0]
    return bool(value_of(x).is_floating_point())


def _none(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=torch.bool)


def _sum(x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return x.sum(list(range(x.dim())) if dim is None else dim, keepdim=keepdim)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.aminmax.default: _extremes,
    aten.cummax.default: _running(torch.maximum),
    aten.cummin.default: _running(torch.minimum),
    aten.isfinite.default: lambda x: torch.ones(x.shape, dtype=torch.bool),
    aten.isinf.default: _none,
    aten.isnan.default: _none,
    aten.median.default: _median,
    aten.nanmedian.default: _median,
    aten.nansum.default: _sum,
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    **dict.fromkeys((aten.cummax.default, aten.cummin.default), reads_values_only),
    **dict.fromkeys((aten.isfinite.default, aten.isinf.default, aten.isnan.default), _is_real),
    aten.aminmax.default: _is_real,
    aten.median.default: _is_real,
    aten.nanmedian.default: _is_real,
}
