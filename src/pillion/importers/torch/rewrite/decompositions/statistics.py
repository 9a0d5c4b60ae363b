# SPDX-License-Identifier: Apache-2.0
"""Decomposes quantiles, medians and extremes, and tests for values that int8 lacks (NaN, infinity)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, fake_result, torch_operators
from pillion.importers.torch.rewrite.decompositions.building_blocks import running_reduction
from pillion.importers.torch.rewrite.decompositions.pools import reads_values_only
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

Axes = int | list[int] | None


def _min_and_max(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axes = list(range(x.dim())) if dim is None else [dim]
    return x.amin(axes, keepdim=keepdim), x.amax(axes, keepdim=keepdim)


def _is_real(node: Node) -> bool:
    x: Any = node.args[0]
    return bool(fake_result(x).is_floating_point())


decompose_by(_min_and_max, aten.aminmax.default, when=_is_real)
for _function, _target in ((torch.maximum, aten.cummax.default), (torch.minimum, aten.cummin.default)):
    decompose_by(
        lambda x, dim, f=_function: (running_reduction(f, x, dim), None), _target, when=reads_values_only
    )
for _fill, _names in ((torch.ones, "isfinite"), (torch.zeros, "isinf isnan")):
    decompose_by(
        lambda x, fill=_fill: fill(x.shape, dtype=torch.bool), *torch_operators(_names), when=_is_real
    )
decompose_by(lambda x: x.reshape(-1).median(0)[0], aten.median.default, aten.nanmedian.default, when=_is_real)
decompose_by(
    lambda x, dim=None, keepdim=False, dtype=None: x.sum(dim or list(range(x.dim())), keepdim=keepdim),
    aten.nansum.default,
)
