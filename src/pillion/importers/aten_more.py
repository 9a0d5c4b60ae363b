# SPDX-License-Identifier: Apache-2.0
"""Rows for products of tensors, transposed convolution, resizing, slopes, divisions, sums and extrema: with
them, `ROWS` is the whole table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pillion.importers.aten import (
    ROWS,
    aten,
    bias_or_zeros,
    broadcasting,
    linear,
    lowers,
    pair,
    reduced,
    refuse,
    sides,
    want_constant,
    with_height,
)
from pillion.importers.layout import NHWC, NLC, Builder, Placed, plain
from pillion.importers.views import view
from pillion.ir.op import Op
from pillion.ir.types import Pair, Shape
from pillion.ops.div import Div
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

ROWS[aten.div.Tensor] = broadcasting(Div)

__all__ = ["ROWS"]

# --- products -----------------------------------------------------------------------------------------------

SWAPPED = (0, 2, 1)


@lowers(aten.bmm.default)
def bmm(b: Builder, first: Placed, second: Placed) -> Placed:
    """Operands whose last two axes lie exchanged stay so: the op reads them either way."""
    left, right = (x if x.order == SWAPPED else plain(b.plain(x)) for x in (first, second))
    adj_x, adj_y = left.order == SWAPPED, right.order == SWAPPED
    return plain(b.emit(BatchMatmul, a=left.value, b=right.value, adj_x=adj_x, adj_y=adj_y))


@lowers(aten.matmul.default)
def matmul(b: Builder, first: Placed, second: Placed) -> Placed:
    """Vectors are matrices of one row or column; leading axes are one axis of batches."""
    if first.rank == 1:
        row = matmul(b, view(b, first, (1, *first.shape)), second)
        return view(b, row, (*row.shape[:-2], row.shape[-1]))
    if second.rank == 1:
        column = matmul(b, first, view(b, second, (*second.shape, 1)))
        return view(b, column, column.shape[:-1])
    if second.rank == 2 and second.value.is_constant:
        return linear(b, first, second.permuted((1, 0)))
    lead = _batches(first.shape[:-2], second.shape[:-2])
    if math.prod(second.shape[:-2]) == 1:
        rows = view(b, first, (1, math.prod(first.shape[:-1]), first.shape[-1]))
        product = bmm(b, rows, view(b, second, (1, *second.shape[-2:])))
    else:
        product = bmm(b, *(view(b, x, (math.prod(lead), *x.shape[-2:])) for x in (first, second)))
    return view(b, product, (*lead, first.shape[-2], second.shape[-1]))


def _batches(first: Shape, second: Shape) -> Shape:
    """The leading axes of a product: the same for both, or none for the second operand."""
    rank = max(len(first), len(second))
    left, right = ((1,) * (rank - len(lead)) + lead for lead in (first, second))
    if left != right and math.prod(right) != 1:
        raise refuse(
            "matmul that repeats batches is not supported",
            "matmul: both operands have the same batches, or the second one has none",
            f"{list(first)} and {list(second)}",
            "repeat the smaller operand with torch.cat beforehand",
        )
    return left


# --- transposed convolution ---------------------------------------------------------------------------------


@lowers(aten.conv_transpose2d.input)
def conv_transpose2d(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Placed:
    """Weights are [in, out, height, width]."""
    if x.rank != 4:
        raise refuse(
            "an unbatched conv_transpose2d is not supported",
            "conv_transpose2d: the input has rank 4",
            f"shape {list(x.shape)}",
            "add a batch axis: x.unsqueeze(0)",
        )
    if groups != 1:
        raise refuse(
            "a grouped conv_transpose2d is not supported",
            "conv_transpose2d: groups is 1",
            groups,
            "split the channels, and concatenate the results",
        )
    want_constant("conv_transpose2d", "weight", weight)
    y = b.emit(
        TransposeConv2d,
        x=b.arrange(x, NHWC),
        weights=b.arrange(weight, (1, 2, 3, 0)),
        bias=bias_or_zeros(b, bias, weight.shape[1]),
        stride=pair(stride),
        dilation=pair(dilation),
        padding=sides(padding),
        output_padding=pair(output_padding),
    )
    return Placed(y, NHWC)


@lowers(aten.conv_transpose1d.default)
def conv_transpose1d(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Placed:
    """Over images of height 1."""
    if x.rank != 3:
        raise refuse(
            "an unbatched conv_transpose1d is not supported",
            "conv_transpose1d: the input has rank 3",
            f"shape {list(x.shape)}",
            "add a batch axis: x.unsqueeze(0)",
        )
    want_constant("conv_transpose1d", "weight", weight)
    batch, channels, length = x.shape
    image = Placed(b.reshape(b.arrange(x, NLC), (batch, 1, length, channels)), NHWC)
    step, border, more, apart = (pair(given)[0] for given in (stride, padding, output_padding, dilation))
    out = conv_transpose2d(
        b, image, with_height(weight), bias, (1, step), (0, border), (0, more), groups, (1, apart)
    )
    return Placed(b.reshape(out.value, (batch, out.shape[3], out.shape[1])), NLC)


# --- images of another size ---------------------------------------------------------------------------------


@lowers(aten.upsample_nearest2d.vec)
def nearest(
    b: Builder, x: Placed, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None = None
) -> Placed:
    return _resized(b, ResizeNearest, x, output_size, scale_factors)


@lowers(aten._upsample_nearest_exact2d.vec)
def nearest_exact(
    b: Builder, x: Placed, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None = None
) -> Placed:
    return _resized(b, ResizeNearest, x, output_size, scale_factors, half_pixel=True)


@lowers(aten.upsample_bilinear2d.vec)
def bilinear(
    b: Builder,
    x: Placed,
    output_size: Sequence[int] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
) -> Placed:
    return _resized(
        b,
        ResizeBilinear,
        x,
        output_size,
        scale_factors,
        align_corners=align_corners,
        half_pixel=not align_corners,
    )


@lowers(aten.upsample_nearest2d.default)
def nearest_to_size(
    b: Builder,
    x: Placed,
    output_size: Sequence[int],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Placed:
    return nearest(b, x, output_size, _factors(scales_h, scales_w))


@lowers(aten.upsample_bilinear2d.default)
def bilinear_to_size(
    b: Builder,
    x: Placed,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Placed:
    return bilinear(b, x, output_size, align_corners, _factors(scales_h, scales_w))


def _factors(height: float | None, width: float | None) -> tuple[float, float] | None:
    return None if height is None or width is None else (height, width)


def _resized(
    b: Builder,
    cls: type[Op],
    x: Placed,
    size: Sequence[int] | None,
    factors: Sequence[float] | None,
    **corners: Any,
) -> Placed:
    if x.rank != 4:
        raise refuse("this resize is not supported", "resize: images of rank 4", f"shape {list(x.shape)}")
    return Placed(b.emit(cls, x=b.arrange(x, NHWC), size=_size(x.shape[2:], size, factors), **corners), NHWC)


def _size(before: Shape, size: Sequence[int] | None, factors: Sequence[float] | None) -> Pair:
    """The wanted height and width. PyTorch finds positions by the factors themselves where those are
    given."""
    if factors is None:
        assert size is not None, "either is given"
        return (size[0], size[1])
    exact = [d * f for d, f in zip(before, factors, strict=True)]
    if not all(math.isclose(e, round(e)) for e in exact):
        raise refuse(
            "resize by this factor is not supported",
            "resize: the factor times the size is a whole number",
            f"{list(before)} by {list(factors)}",
            "give the wanted size instead of factors",
        )
    return (round(exact[0]), round(exact[1]))


# --- slopes and reductions ----------------------------------------------------------------------------------


@lowers(aten.prelu.default)
def prelu(b: Builder, x: Placed, weight: Placed) -> Placed:
    """One slope, or one for each index of logical axis 1, wherever that lies."""
    slope = weight.value
    if slope.type.elements > 1:
        behind = x.rank - 1 - x.axis(1)
        slope = b.reshape(slope, (slope.type.elements, *(1,) * behind))
    return x.with_value(b.emit(Prelu, x=x.value, slope=slope))


@lowers(aten.sum.dim_IntList)
def sum_dim(b: Builder, x: Placed, dim: Sequence[int] | None, keepdim: bool = False) -> Placed:
    return reduced(b, ReduceSum, x, dim, keepdim)


@lowers(aten.sum.default)
def sum_all(b: Builder, x: Placed) -> Placed:
    return reduced(b, ReduceSum, x, None, False)


@lowers(aten.amax.default)
def amax(b: Builder, x: Placed, dim: Sequence[int] = (), keepdim: bool = False) -> Placed:
    return reduced(b, ReduceMax, x, dim, keepdim)


@lowers(aten.amin.default)
def amin(b: Builder, x: Placed, dim: Sequence[int] = (), keepdim: bool = False) -> Placed:
    return reduced(b, ReduceMin, x, dim, keepdim)


@lowers(aten.max.dim)
def max_dim(b: Builder, x: Placed, dim: int, keepdim: bool = False) -> Placed:
    """The values; reading the indices is refused by `getitem`."""
    return amax(b, x, [dim], keepdim)


@lowers(aten.min.dim)
def min_dim(b: Builder, x: Placed, dim: int, keepdim: bool = False) -> Placed:
    return amin(b, x, [dim], keepdim)
