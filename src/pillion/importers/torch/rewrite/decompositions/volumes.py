# SPDX-License-Identifier: Apache-2.0
"""Decomposes 3-d convolutions, grouped transposed convolutions, bilinear layers and `col2im` into convolutions and
products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, named_argument, per_axis, shape_of
from pillion.importers.torch.rewrite.decompositions.building_blocks import accept_unbatched, window_count
from pillion.importers.torch.rewrite.decompositions.table import LATE, decompose_by

Ints = int | Sequence[int]


@accept_unbatched(5)
def _decompose_conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Stacks the images that a window sees as channels of one image, so that one accumulator holds all sums."""
    depth, *kernel = weight.shape[2:]
    step, apart = per_axis(stride, 3), per_axis(dilation, 3)
    border = padding if isinstance(padding, str) else per_axis(padding, 3)
    front = _depth_padding(border, depth, apart[0])
    x = F.pad(x, (0, 0, 0, 0, *front)).transpose(1, 2)
    count = window_count(x.shape[1], depth, step[0], 0, apart[0])
    seen = [
        aten.slice.Tensor(x, 1, tap * apart[0], tap * apart[0] + (count - 1) * step[0] + 1, step[0])
        for tap in range(depth)
    ]
    if groups == 1:
        image = torch.cat(seen, 2)
        weight = weight.transpose(1, 2)
    else:
        image = torch.stack(seen, 3)
    image = image.reshape(-1, x.shape[2] * depth, *x.shape[3:])
    flat = weight.reshape(weight.shape[0], -1, *kernel)
    sides = border if isinstance(border, str) else tuple(border[1:])
    y = F.conv2d(image, flat, bias, tuple(step[1:]), sides, tuple(apart[1:]), groups)
    return y.reshape(x.shape[0], count, *y.shape[1:]).transpose(1, 2)


def _depth_padding(border: str | Sequence[int], kernel: int, apart: int) -> tuple[int, int]:
    """Returns the padding in front of and behind the depth axis."""
    if not isinstance(border, str):
        return border[0], border[0]
    total = apart * (kernel - 1) if border == "same" else 0
    return total // 2, total - total // 2


def _transposed_conv_decomposition(rank: int) -> Callable[..., Tensor]:
    """Computes a transposed convolution as one whose channels are the output pixels between two input pixels,
    interleaved afterwards: with stride s, output s·m + r sees taps r, s + r, 2s + r … of the kernel."""

    @accept_unbatched(rank + 2)
    def decomposed(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
    ) -> Tensor:
        step, border, more = (per_axis(argument, rank) for argument in (stride, padding, output_padding))
        weight = _dilate_kernel(weight, per_axis(dilation, rank))
        sizes = [
            (n - 1) * s - 2 * p + k + m
            for n, s, p, k, m in zip(x.shape[2:], step, border, weight.shape[2:], more, strict=True)
        ]
        taps = [-(-k // s) for k, s in zip(weight.shape[2:], step, strict=True)]
        filters = _filters_by_phase(weight, step, taps, groups)
        between = math.prod(step)
        offsets = None if bias is None else bias.reshape(-1, 1).expand(-1, between).reshape(-1)
        counts = [-(-(size + p) // s) for size, p, s in zip(sizes, border, step, strict=True)]
        sides: list[int] = []
        for n, t, count in zip(reversed(x.shape[2:]), reversed(taps), reversed(counts), strict=True):
            sides += [t - 1, count - n]
        y = CONVOLUTIONS[rank](F.pad(x, sides), filters, offsets, 1, 0, 1, groups)
        y = _interleave_phases(y, step)
        for axis, (p, size) in enumerate(zip(border, sizes, strict=True)):
            y = y.narrow(2 + axis, p, size) if (p, size) != (0, y.shape[2 + axis]) else y
        return y

    return decomposed


def _dilate_kernel(weight: Tensor, apart: Sequence[int]) -> Tensor:
    """Inserts the zeros of a dilated kernel between its taps."""
    for axis, gap in enumerate(apart):
        if gap > 1:
            dim = 2 + axis
            zeros = torch.zeros_like(weight)
            shape = [*weight.shape]
            shape[dim] *= gap
            spread = torch.stack([weight, *[zeros] * (gap - 1)], dim + 1).reshape(shape)
            weight = spread.narrow(dim, 0, shape[dim] - gap + 1)
    return weight


def _filters_by_phase(weight: Tensor, step: Sequence[int], taps: Sequence[int], groups: int) -> Tensor:
    """Reorders weights [in, out / groups, *kernel] to filters [out · phases, in / groups, *taps] with flipped
    taps."""
    rank = len(step)
    sides: list[int] = []
    for k, s, t in zip(reversed(weight.shape[2:]), reversed(step), reversed(taps), strict=True):
        sides += [0, s * t - k]
    weight = F.pad(weight, sides)
    channels, out = weight.shape[:2]
    split = [size for t, s in zip(taps, step, strict=True) for size in (t, s)]
    weight = weight.reshape(groups, channels // groups, out, *split)
    phases, turns = [4 + 2 * i for i in range(rank)], [3 + 2 * i for i in range(rank)]
    weight = weight.permute(0, 2, *phases, 1, *turns)
    weight = weight.reshape(groups * out * math.prod(step), channels // groups, *taps)
    return weight.flip(list(range(2, 2 + rank)))


def _interleave_phases(y: Tensor, step: Sequence[int]) -> Tensor:
    """Interleaves the channels of each phase into the image."""
    rank, size = len(step), y.shape[2:]
    y = y.reshape(y.shape[0], -1, *step, *size)
    order = [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]
    return y.permute(0, 1, *order).reshape(*y.shape[:2], *(n * s for n, s in zip(size, step, strict=True)))


CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _is_grouped(node: Node) -> bool:
    return bool(named_argument(node, "groups") != 1)


def _decompose_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Tensor:
    rank = weight.dim() - 2
    if transposed:
        return _transposed_conv_decomposition(rank)(
            x, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _decompose_conv3d(x, weight, bias, stride, padding, dilation, groups)


def _decompose_bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes a matrix per sample from the first operand by a linear layer, and multiplies the second one by it."""
    out, left, right = weight.shape
    lead = a.shape[:-1]
    matrices = F.linear(a.reshape(-1, left), weight.transpose(1, 2).reshape(out * right, left))
    y = torch.bmm(matrices.reshape(-1, out, right), b.reshape(-1, right, 1)).reshape(*lead, out)
    return y if bias is None else y + bias


@accept_unbatched(3)
def _decompose_col2im(
    x: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Tensor:
    """Sums overlapping patches by a transposed convolution with one-hot filters."""
    size, kernel, apart, border, step = (
        per_axis(argument, 2) for argument in (output_size, kernel_size, dilation, padding, stride)
    )
    windows = [window_count(*axis) for axis in zip(size, kernel, step, border, apart, strict=True)]
    covered = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1
        for n, s, p, d, k in zip(windows, step, border, apart, kernel, strict=True)
    ]
    more = [target - reached for target, reached in zip(size, covered, strict=True)]
    taps = math.prod(kernel)
    channels = x.shape[1] // taps
    ones = torch.eye(taps).reshape(taps, 1, *kernel)
    filters = torch.cat([ones] * channels, 0)
    patches = x.reshape(x.shape[0], x.shape[1], *windows)
    return F.conv_transpose2d(patches, filters, None, step, border, more, channels, apart)


decompose_by(_decompose_bilinear, aten.bilinear.default)
decompose_by(_decompose_col2im, aten.col2im.default)
decompose_by(_decompose_conv3d, aten.conv3d.default, aten.conv3d.padding)
decompose_by(_transposed_conv_decomposition(3), aten.conv_transpose3d.input)
decompose_by(
    _decompose_convolution,
    aten.convolution.default,
    when=lambda node: len(shape_of(named_argument(node, "weight"))) == 5,
)
decompose_by(_transposed_conv_decomposition(1), aten.conv_transpose1d.default, when=_is_grouped, table=LATE)
decompose_by(_transposed_conv_decomposition(2), aten.conv_transpose2d.input, when=_is_grouped, table=LATE)
