# SPDX-License-Identifier: Apache-2.0
"""Decomposes resizes of signals and volumes, cubic resizes, and resizes by factors that give no integral size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, is_constant, named_argument, shape_of
from pillion.importers.torch.rewrite.decompositions.building_blocks import over_volumes
from pillion.importers.torch.rewrite.decompositions.static_gather import gather_static
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

Sizes = Sequence[int] | None
Factors = Sequence[float] | None


def _resize_signal(resize: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Resizes a signal as an image of height 1."""

    def decomposed(x: Tensor, output_size: Sizes, *rest: Any) -> Tensor:
        *corners, factors = rest
        size = None if output_size is None else [1, output_size[0]]
        both = None if factors is None else [1.0, factors[0]]
        return resize(x.unsqueeze(2), size, *corners, both).squeeze(2)

    return decomposed


def _resize_volume(resize: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Resizes each image of a volume, then its depth."""

    def decomposed(x: Tensor, output_size: Sizes, *rest: Any) -> Tensor:
        *corners, factors = rest
        size: Any = output_size or (None, None, None)
        scales: Any = None if factors is None else [list(factors[1:]), [factors[0], 1.0]]
        return over_volumes(
            x,
            lambda y: resize(y, output_size and list(size[1:]), *corners, scales and scales[0]),
            lambda y: resize(y, output_size and [size[0], y.shape[-1]], *corners, scales and scales[1]),
        )

    return decomposed


def _resize_by_matrices(resize: Any) -> Callable[..., Tensor]:
    """Resizes by one constant matrix per axis; its columns are the resized unit pixels."""

    def decomposed(
        x: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors = None
    ) -> Tensor:
        for axis in (1, 0):
            size = None if output_size is None else [1, output_size[axis]]
            factors = None if scale_factors is None else [1.0, scale_factors[axis]]
            pixels = x.shape[2 + axis]
            unit = torch.eye(pixels).reshape(1, pixels, 1, pixels)
            matrix = resize(unit, size, align_corners, factors).reshape(pixels, -1)
            x = x @ matrix if axis == 1 else (x.transpose(2, 3) @ matrix).transpose(2, 3)
        return x

    return decomposed


def _resize_nearest(x: Tensor, output_size: Sizes, scale_factors: Factors = None) -> Tensor:
    """Gathers pixels at the positions that PyTorch derives from the factors."""
    for axis, factor in enumerate(scale_factors or ()):
        before = x.shape[2 + axis]
        step = np.float32(1.0 / factor)
        positions = np.floor(np.arange(int(before * factor), dtype=np.float32) * step).astype(int)
        x = gather_static(x, 2 + axis, np.minimum(positions, before - 1).tolist())
    return x


def _with_separate_factors(decomposed: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Adapts a decomposition to an operator with one argument per factor."""

    def parts(x: Tensor, output_size: Sequence[int], *rest: Any) -> Tensor:
        corners, factors = rest[:-2], list(rest[-2:])
        return decomposed(x, None, *corners, factors)

    return parts


def _has_inexact_factors(node: Node) -> bool:
    """Whether positions derive from factors that do not determine the size."""
    return not size_follows_factors(node) and not is_constant(node.args[0])


def size_follows_factors(node: Node) -> bool:
    """Whether the size of a resize follows from its factors, if it has any."""
    before, after = shape_of(node.args[0])[2:], shape_of(node)[2:]  # type: ignore[arg-type]  # the schema says tensor
    axes = zip(before, _scale_factors(node), after, strict=True)
    return all(factor is None or math.isclose(b * factor, a) for b, factor, a in axes)


def _scale_factors(node: Node) -> Sequence[float | None]:
    """Returns the factor of each image axis; None if not given."""
    count = len(shape_of(node)) - 2
    names = [declared.name for declared in node.target._schema.arguments]  # type: ignore[union-attr]  # an OpOverload
    if "scale_factors" in names:
        return named_argument(node, "scale_factors") or [None] * count
    return [named_argument(node, name) for name in names if name.startswith("scales")]


decompose_by(_resize_signal(aten.upsample_nearest2d.vec), aten.upsample_nearest1d.vec)
decompose_by(_resize_signal(aten._upsample_nearest_exact2d.vec), aten._upsample_nearest_exact1d.vec)
decompose_by(_resize_signal(aten.upsample_bilinear2d.vec), aten.upsample_linear1d.vec)
decompose_by(_resize_volume(aten.upsample_nearest2d.vec), aten.upsample_nearest3d.vec)
decompose_by(_resize_volume(aten._upsample_nearest_exact2d.vec), aten._upsample_nearest_exact3d.vec)
decompose_by(_resize_volume(aten.upsample_bilinear2d.vec), aten.upsample_trilinear3d.vec)
for _decomposed, _resize in (
    (_resize_by_matrices(aten.upsample_bilinear2d.vec), aten.upsample_bilinear2d),
    (_resize_nearest, aten.upsample_nearest2d),
):
    decompose_by(_decomposed, _resize.vec, when=_has_inexact_factors)
    decompose_by(_with_separate_factors(_decomposed), _resize.default, when=_has_inexact_factors)
for _curve in (
    aten.upsample_bicubic2d.vec,
    aten._upsample_bicubic2d_aa.vec,
    aten._upsample_bilinear2d_aa.vec,
):
    decompose_by(_resize_by_matrices(_curve), _curve, when=lambda node: not is_constant(node.args[0]))
