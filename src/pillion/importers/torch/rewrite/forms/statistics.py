# SPDX-License-Identifier: Apache-2.0
"""What is said of many numbers: quantiles, medians, extremes, counts, and what there is of numbers in int8, all of which are finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.nodes import aten, named_argument, value_of

Axes = int | list[int] | None


def _quantile(x: Tensor, q: float, dim: int | None = None, keepdim: bool = False, **options: Any) -> Tensor:
    """Between the two numbers around it, in their order."""
    if dim is None:
        y = _quantile(x.reshape(-1), q, 0, **options)
        return y.reshape([1] * x.dim()) if keepdim else y
    place = q * (x.shape[dim] - 1)
    low, high = _places(place, str(options.get("interpolation", "linear")))
    ordered = x.sort(dim)[0]
    y = ordered.narrow(dim, low, 1)
    if high > low:
        y = torch.lerp(y, ordered.narrow(dim, high, 1), place - low)
    return y if keepdim else y.squeeze(dim)


def _places(place: float, interpolation: str) -> tuple[int, int]:
    """The places of the two numbers that a quantile lies between; the same twice, where it is a number itself."""
    low, high = math.floor(place), math.ceil(place)
    one = {"lower": low, "higher": high, "nearest": round(place)}.get(interpolation)
    return (low, high) if one is None else (one, one)


def _is_between_two(node: Node) -> bool:
    """Whether a quantile is a number that is known, and not the middle of two, whatever lies between."""
    return isinstance(node.args[1], float) and named_argument(node, "interpolation") != "midpoint"


def _median(x: Tensor) -> Tensor:
    return x.reshape(-1).median(0)[0]


def _extremes(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axes = list(range(x.dim())) if dim is None else [dim]
    return x.amin(axes, keepdim=keepdim), x.amax(axes, keepdim=keepdim)


def _count(x: Tensor, dim: Axes = None) -> Tensor:
    flags = x if x.dtype == torch.bool else x != 0
    axes = list(range(x.dim())) if dim is None else dim
    return flags.sum(axes)


def _running(larger: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The extremes so far: each meets what lies one, two, four … places before it."""

    def form(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        step, size = 1, x.shape[dim]
        while step < size:
            first = x.narrow(dim, 0, step)
            met = larger(x.narrow(dim, step, size - step), x.narrow(dim, 0, size - step))
            x, step = torch.cat([first, met], dim), 2 * step
        return x, torch.zeros_like(x, dtype=torch.int64)

    return form


def _are_values(node: Node) -> bool:
    """Whether nobody asks where they are."""
    return all(user.args[1] == 0 for user in node.users)


def _is_real(node: Node) -> bool:
    x: Any = node.args[0]
    return bool(value_of(x).is_floating_point())


def _none(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=torch.bool)


def _sum(x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return x.sum(list(range(x.dim())) if dim is None else dim, keepdim=keepdim)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.aminmax.default: _extremes,
    aten.count_nonzero.default: _count,
    aten.count_nonzero.dim_IntList: _count,
    aten.cummax.default: _running(torch.maximum),
    aten.cummin.default: _running(torch.minimum),
    aten.isfinite.default: lambda x: torch.ones(x.shape, dtype=torch.bool),
    aten.isinf.default: _none,
    aten.isnan.default: _none,
    aten.median.default: _median,
    aten.nanmedian.default: _median,
    aten.nansum.default: _sum,
    aten.quantile.scalar: _quantile,
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    **dict.fromkeys((aten.cummax.default, aten.cummin.default), _are_values),
    **dict.fromkeys((aten.isfinite.default, aten.isinf.default, aten.isnan.default), _is_real),
    aten.aminmax.default: _is_real,
    aten.median.default: _is_real,
    aten.nanmedian.default: _is_real,
    aten.quantile.scalar: _is_between_two,
}
