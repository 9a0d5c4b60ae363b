# SPDX-License-Identifier: Apache-2.0
"""Fix-its for upscaling ops: transposed convolutions and resizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from pillion.devices.neutron import limits as limits
from pillion.devices.retyped import Fixit, with_inferred_result, with_shape_and_quant
from pillion.ir.op import Op
from pillion.ir.types import Pair
from pillion.ops import ResizeBilinear, TransposeConv2d
from pillion.ops.resize import Resize


def suggest_shorter_stride(op: TransposeConv2d) -> Iterator[Fixit]:
    """Suggests the longest stride that the NPU supports for the kernel."""
    most = [min(limits.MAX_TRANSPOSE_CONV_STRIDE, k) for k in op.kernel]
    new = (min(op.stride[0], most[0]), min(op.stride[1], most[1]))
    yield f"stride {op.stride} → {new}", _with_stride_and_dilation(op, new, op.dilation)


def suggest_no_dilation(op: TransposeConv2d) -> Iterator[Fixit]:
    """Suggests the dilation 1 for a transposed convolution."""
    yield f"dilation {op.dilation} → (1, 1)", _with_stride_and_dilation(op, op.stride, (1, 1))


def _with_stride_and_dilation(op: TransposeConv2d, stride: Pair, dilation: Pair) -> Op:
    """Returns the op with these steps, with its output padding limited to them and its padding removed if no
    result would be left."""
    steps = zip(op.output_padding, stride, dilation, strict=True)
    height, width = (min(more, max(s, d) - 1) for more, s, d in steps)
    changed = dataclasses.replace(op, stride=stride, dilation=dilation, output_padding=(height, width))
    return (
        with_inferred_result(changed)
        if min(changed.output_shape) > 0
        else with_inferred_result(dataclasses.replace(changed, padding=(0, 0, 0, 0)))
    )


def suggest_less_padding(op: TransposeConv2d) -> Iterator[Fixit]:
    """Suggests a padding smaller than the kernel."""
    sides = zip(op.padding, (*op.kernel, *op.kernel), strict=True)
    top, left, bottom, right = (min(p, k - 1) for p, k in sides)
    new = (top, left, bottom, right)
    yield f"padding {op.padding} → {new}", with_inferred_result(dataclasses.replace(op, padding=new))


def suggest_fewer_channels(op: TransposeConv2d) -> Iterator[Fixit]:
    """Suggests fewer input channels, in blocks of 4 or 8 pipelines."""
    for block in (4, 8):
        channels = limits.MAX_DOT_PRODUCT // math.prod(op.kernel) // block * block
        if channels:
            x = with_shape_and_quant(op.x, (*op.x.shape[:3], channels))
            weights = with_shape_and_quant(op.weights, (*op.weights.shape[:3], channels))
            words = f"input channels {op.in_channels} → {channels}"
            yield words, dataclasses.replace(op, x=x, weights=weights)


def suggest_nearest_size(op: Resize) -> Iterator[Fixit]:
    """Suggests the nearest supported size. A one-pixel image has no distance between its corners, so its mode
    changes first."""
    less = int(op.align_corners)
    if min(op.x.shape[1:3]) <= less:
        words, changed = next(suggest_other_alignment(op))
        yield from ((f"{words} and {more}", again) for more, again in suggest_nearest_size(changed))
        return
    axes = zip(op.x.shape[1:3], op.size, strict=True)
    height, width = (_nearest_supported_size(before - less, after - less) + less for before, after in axes)
    words = f"size {op.size} → {(height, width)}"
    yield words, with_inferred_result(dataclasses.replace(op, size=(height, width)))


def _nearest_supported_size(before: int, after: int) -> int:
    return min((before * f for f in limits.RESIZE_FACTORS), key=lambda size: abs(size - after))


def suggest_other_alignment(op: Resize) -> Iterator[tuple[str, Resize]]:
    """Suggests the corner alignment that the NPU supports for this kind of resize."""
    edges = isinstance(op, ResizeBilinear)
    words = f"align_corners=False, half_pixel={edges}"
    yield words, dataclasses.replace(op, align_corners=False, half_pixel=edges)
