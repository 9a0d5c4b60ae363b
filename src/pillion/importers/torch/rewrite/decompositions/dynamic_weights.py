# SPDX-License-Identifier: Apache-2.0
"""Decomposes layers with computed weights (mixed filters, template matching) into matrix products of windows and
weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, is_constant, per_axis, shape_of
from pillion.importers.torch.rewrite.decompositions.building_blocks import window_count
from pillion.importers.torch.rewrite.decompositions.table import LATE, decompose_by

Ints = int | Sequence[int]


def windows_as_columns(
    x: Tensor, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """Returns the pixels of each window as a column: one strided slice per position in the window."""
    lead = x.shape[:-2]
    x = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    counts = [
        window_count(size, k, s, 0, d)
        for size, k, d, s in zip(x.shape[-2:], kernel, dilation, stride, strict=True)
    ]
    taps = [(i * dilation[0], j * dilation[1]) for i in range(kernel[0]) for j in range(kernel[1])]
    cut = [
        x[
            ...,
            i : i + (counts[0] - 1) * stride[0] + 1 : stride[0],
            j : j + (counts[1] - 1) * stride[1] + 1 : stride[1],
        ]
        for i, j in taps
    ]
    flat = [part.reshape(*lead, 1, counts[0] * counts[1]) for part in cut]
    return torch.cat(flat, -2).reshape(*lead[:-1], -1, counts[0] * counts[1])


def _decompose_image_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Multiplies the weight matrix of each group by the windows of all images as columns."""
    step, border, apart = per_axis(stride, 2), per_axis(padding, 2), per_axis(dilation, 2)
    (batch, channels), (out, _, *kernel) = x.shape[:2], weight.shape
    size = [window_count(*axis) for axis in zip(x.shape[2:], kernel, step, border, apart, strict=True)]
    x = F.pad(x, (border[1], border[1], border[0], border[0])) if any(border) else x
    is_whole = (*kernel, *step) == (1, 1, 1, 1)
    seen = x if is_whole else windows_as_columns(x, kernel, apart, (0, 0), step)
    rows = channels // groups * kernel[0] * kernel[1]
    if batch == 1:
        columns = seen.reshape(groups, rows, -1)
    else:
        columns = seen.reshape(batch, groups, rows, -1).permute(1, 2, 0, 3).reshape(groups, rows, -1)
    y = torch.bmm(weight.reshape(groups, out // groups, rows), columns)
    if batch == 1:
        y = y.reshape(1, out, *size)
    else:
        y = y.reshape(out, batch, -1).permute(1, 0, 2).reshape(batch, out, *size)
    return y if bias is None else y + bias.reshape(1, out, 1, 1)


def _decompose_signal_conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, *window: Any) -> Tensor:
    """Computes a convolution over images of height 1."""
    wide: list[Any] = [
        (fill, per_axis(argument, 2)[0]) for fill, argument in zip((1, 0, 1), window, strict=False)
    ]
    y = _decompose_image_conv(x.unsqueeze(2), weight.unsqueeze(2), bias, *wide, *window[3:])
    return y.squeeze(2)


def _linear_as_matmul(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = x.reshape(1, -1, x.shape[-1])
    y = torch.bmm(rows, weight.t().unsqueeze(0)).reshape(*x.shape[:-1], weight.shape[0])
    return y if bias is None else y + bias


def _has_computed_weights(node: Node) -> bool:
    """Whether the weights depend on an input; vectors are excluded."""
    weight: Any = node.args[1]
    return not is_constant(weight) and len(shape_of(weight)) > 1


decompose_by(_decompose_signal_conv, aten.conv1d.default, when=_has_computed_weights, table=LATE)
decompose_by(_decompose_image_conv, aten.conv2d.default, when=_has_computed_weights, table=LATE)
decompose_by(_linear_as_matmul, aten.linear.default, when=_has_computed_weights, table=LATE)
decompose_by(windows_as_columns, aten.im2col.default)
