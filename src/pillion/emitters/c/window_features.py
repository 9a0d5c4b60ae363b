# SPDX-License-Identifier: Apache-2.0
"""The sizes of convolutions and pools to which the instructions of their kernels are proportional: windows, taps,
vectors."""

from __future__ import annotations

import math
from typing import Any

from pillion.emitters.c.scalar.depthwise import is_along_height, ring_size
from pillion.emitters.c.subpixel import input_taps
from pillion.ops import DepthwiseConv2d, TransposeConv2d

Features = dict[str, float]
LANES = 16
"""The bytes of a vector."""


def chunks(count: int, size: int = LANES) -> int:
    """Returns how many vectors hold some elements."""
    return -(-count // size)


def _taps_inside(op: Any, axis: int) -> int:
    """Returns the taps of all windows along an axis of the image that lie inside it."""
    size, count = op.x.shape[1 + axis], op.y.shape[1 + axis]
    before, stride, kernel = op.padding[axis], op.stride[axis], op.kernel[axis]
    dilation = getattr(op, "dilation", (1, 1))[axis]
    if kernel > count:
        starts = (window * stride - before for window in range(count))
        return sum(
            max(0, min(kernel, (size - 1 - start) // dilation + 1) - max(0, -(start // dilation)))
            for start in starts
        )
    shifts = (before - tap * dilation for tap in range(kernel))
    return sum(
        max(0, min(count, (size - 1 + shift) // stride + 1) - max(0, -(-shift // stride))) for shift in shifts
    )


def pool_features(op: Any) -> Features:
    """Returns the taps of windows inside the image, by elements and by vectors of channels."""
    batch, height, width, channels = op.y.shape
    rows, columns = batch * _taps_inside(op, 0), _taps_inside(op, 1)
    pixels, window_rows, taps = batch * height * width, rows * width, rows * columns
    vectors = chunks(channels)
    return {
        "pixels": pixels,
        "vectors": pixels * vectors,
        "row_vectors": window_rows * vectors,
        "tap_vectors": taps * vectors,
        "window_rows": window_rows,
        "taps": taps,
        "tap_results": taps * channels,
        "image_rows": batch * height,
    }


def dot_features(op: Any, rows: int, width: int, out: int, depth: int) -> Features:
    """Returns the sizes of dot products of eight outputs, for each vector of rows of some vectors, and for two at a time: vectors of inputs,
    and loops over the outputs, which are further ones for vectors and outputs that are left."""
    eights, pieces = chunks(out, 8), chunks(depth * op.x.dtype.size_bytes)
    pixels, pairs = rows * width, rows * chunks(width, 2)
    return {
        "eights": pixels * eights,
        "eight_pieces": pixels * eights * pieces,
        "quad_fours": rows * chunks(width, 4) * chunks(out, 4),
        "pair_eights": pairs * eights,
        "pair_eight_pieces": pairs * eights * pieces,
        "loops": (1 + width % 2) * (1 + (out % 8 > 0)),
        "row_loops": pixels * ((out >= 8) + (out % 8 > 0)),
        "rest_results": pixels * (out % 8),
        "narrow_rows": rows * (1 + width % 2) if out < 8 else 0,
        "groups": eights,
        "group_pieces": eights * pieces,
    }


def conv_features(op: Any) -> Features:
    """Returns the windows of a convolution, and the elements that they hold."""
    found = pool_features(op)
    groups = getattr(op, "groups", 1)
    depth = op.macs // max(op.y.type.elements, 1)
    pixels = math.prod(op.y.shape[:3])
    kind = "point" if op.kernel == (1, 1) and groups == 1 else "window"
    is_strided = kind == "point" and op.stride != (1, 1)
    rows = op.y.shape[0] * op.y.shape[1] if is_strided else 1
    dots = {} if groups > 1 else dot_features(op, rows, pixels // max(rows, 1), op.out_channels, depth)
    return (
        found
        | dots
        | {
            "group_pixels": pixels * groups,
            "gathered": pixels * groups * depth,
            "gathered_rows": found["window_rows"] * groups,
            "gathered_taps": found["taps"] * groups,
            "mac_words": op.y.type.elements * chunks(depth, 4),
            f"{kind}_pixels": pixels,
            f"{kind}_words": op.y.type.elements * chunks(depth, 4),
            "fours": pixels * groups * chunks(op.out_channels // groups, 4),
            "four_vectors": pixels * chunks(op.out_channels, 4) * chunks(depth),
            "four_words": pixels * groups * chunks(op.out_channels // groups, 4) * chunks(depth, 4),
            "odd_vectors": pixels * chunks(depth) if op.out_channels % 4 else 0,
            "few_vectors": pixels * chunks(depth) * op.out_channels if op.out_channels < 4 else 0,
            "weights": op.weights.type.elements,
        }
    )


def depthwise_features(op: DepthwiseConv2d) -> Features:
    """Returns the cost features of a depthwise convolution, and the rows or columns that scalar kernels widen,
    channel by channel."""
    batch, channels = op.y.shape[0], op.out_channels
    axes = list(zip(op.y.shape[1:3], op.stride, op.kernel, op.dilation, strict=True))
    (down, step, *_), (along, stride, _, dilation) = axes[::-1] if is_along_height(op) else axes
    is_3x3 = op.kernel == (3, 3) and dilation == 1 and stride < 3
    kind = f"by_{stride}" if is_3x3 else "by_1_any" if stride == 1 else "by_any"
    fours, (reach, width) = batch * channels * down * chunks(along, 4), ring_size(op)
    planes, read = batch * channels, (down - 1) * min(step, reach) + reach
    return conv_features(op) | {
        f"{kind}_planes": planes,
        f"{kind}_rows": planes * down,
        f"{kind}_fours": fours,
        f"{kind}_taps": fours * op.kernel[0] * op.kernel[1],
        f"{kind}_tap_rows": fours * op.kernel[1 if is_along_height(op) else 0],
        f"{kind}_results": op.y.type.elements,
        "widened": planes * read * width,
        "widened_rows": planes * read,
    }


def transpose_conv_features(op: TransposeConv2d) -> Features:
    """Returns the convolutions of the phases, and the taps inside the result."""
    batch, height, width, channels = op.y.shape
    phases = [_phase_taps(op, 0, first) for first in range(op.stride[0])]
    columns = [tap for first in range(op.stride[1]) for tap in _phase_taps(op, 1, first)]
    across = (max(columns, default=0) - min(columns, default=0) + 1) * op.in_channels
    image_rows = batch * height
    depth_rows = sum(
        batch * len(range(first, height, op.stride[0])) * (max(taps) - min(taps) + 1)
        for first, taps in enumerate(phases)
        if taps
    )
    wide = chunks(width, op.stride[1])
    inside = [_taps_onto(op, axis) for axis in (0, 1)]
    taps = batch * inside[0] * inside[1]
    return {
        "image_rows": image_rows,
        "pixels": image_rows * wide,
        "gathered": depth_rows * wide * across,
        "gathered_rows": depth_rows * wide,
        "depths": depth_rows * width * channels * across,
        "depth_vectors": depth_rows * width * channels * chunks(across),
        "depth_fours": depth_rows * wide * chunks(channels * op.stride[1], 4) * chunks(across),
        "taps": taps,
        "tap_macs": taps * op.in_channels * channels,
        "tap_results": taps * channels,
        "result_pixels": batch * height * width,
        "phases": op.stride[0],
    }


def _phase_taps(op: TransposeConv2d, axis: int, first: int) -> list[int]:
    place = first + op.padding[axis]
    return list(input_taps(op.kernel[axis], op.stride[axis], op.dilation[axis], place).values())


def _taps_onto(op: TransposeConv2d, axis: int) -> int:
    size, before = op.y.shape[1 + axis], op.padding[axis]
    starts = (place * op.stride[axis] - before for place in range(op.x.shape[1 + axis]))
    return sum(
        0 <= start + tap * op.dilation[axis] < size for start in starts for tap in range(op.kernel[axis])
    )
