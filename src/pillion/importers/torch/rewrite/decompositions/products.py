# SPDX-License-Identifier: Apache-2.0
"""Decomposes products along an axis, cross products, and powers with several constant exponents."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, fake_result, is_constant, shape_of
from pillion.importers.torch.rewrite.decompositions.building_blocks import running_reduction
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

MOST = 64
"""Maximum factors of a product, and maximum distinct exponents."""


def _multiply_halves(
    x: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Multiplies halves until one element is left, so that each partial product has its own scale."""
    while (size := x.shape[dim]) > 1:
        half = size // 2
        products = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        x = torch.cat([products, x.narrow(dim, size - 1, 1)], dim) if size % 2 else products
    return x if keepdim else x.squeeze(dim)


def _is_short_product(node: Node) -> bool:
    """Whether few real numbers are multiplied; integer products are lowered elsewhere."""
    x: Any = node.args[0]
    shape = shape_of(x)
    size = fake_result(x).numel() if len(node.args) < 2 else shape[int(node.args[1])] if shape else 0  # type: ignore[arg-type]  # a number
    return fake_result(node).is_floating_point() and fake_result(x).is_floating_point() and 0 < size <= MOST


def _power_per_slice(x: Tensor, exponents: Tensor) -> Tensor:
    """Raises each slice to its own exponent, so that each has its own table."""
    shape = torch.broadcast_shapes(x.shape, exponents.shape)  # type: ignore[no-untyped-call]  # of torch
    behind = next(i for i in range(1, exponents.dim() + 1) if exponents.shape[-i] > 1)
    x, flat = x.expand(shape), exponents.reshape(-1)
    return torch.cat([x.narrow(-behind, i, 1) ** flat[i] for i in range(flat.numel())], -behind)


def _are_few_exponents(node: Node) -> bool:
    """Whether the exponents are constants that differ along one axis."""
    exponents: Any = node.args[1]
    sizes = [size for size in fake_result(exponents).shape if size > 1]
    return is_constant(exponents) and not is_constant(node.args[0]) and len(sizes) == 1 and sizes[0] <= MOST


decompose_by(
    lambda x, dim, dtype=None: running_reduction(torch.mul, x, dim),
    aten.cumprod.default,
    when=_is_short_product,
)
decompose_by(_power_per_slice, aten.pow.Tensor_Tensor, when=_are_few_exponents)
decompose_by(
    lambda x, dtype=None: _multiply_halves(x.reshape(-1), 0), aten.prod.default, when=_is_short_product
)
decompose_by(_multiply_halves, aten.prod.dim_int, when=_is_short_product)
