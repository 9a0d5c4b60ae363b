# SPDX-License-Identifier: Apache-2.0
"""Fix-its for windows: kernels, strides, padding and channels of convolutions and pools."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from pillion.devices.neutron import limits as limits
from pillion.devices.neutron.fixits.number_formats import largest_channel_scale
from pillion.devices.retyped import Fixit, Fixits, with_inferred_result, with_shape_and_quant
from pillion.ir.op import Op
from pillion.ir.types import PerTensor
from pillion.ops import Conv2d, DepthwiseConv2d
from pillion.ops.conv import Convolution
from pillion.ops.pool import Pool


def limit_window_field(field: str) -> Fixits:
    """Returns a fix-it that limits one field of a window to the NPU's maximum."""

    def change(op: Op) -> Iterator[Fixit]:
        if field in op.attributes:
            old = getattr(op, field)
            new = tuple(min(n, limits.MAX_WINDOW) for n in old)
            yield f"{field} {old} → {new}", with_inferred_result(dataclasses.replace(op, **{field: new}))  # type: ignore[arg-type]  # any field

    return change


def suggest_smaller_kernel(op: Convolution) -> Iterator[Fixit]:
    """Suggests the largest kernel that the NPU supports; the weights change with it."""
    first, *_, last = op.weights.shape
    new = tuple(min(n, limits.MAX_WINDOW) for n in op.kernel)
    weights = with_shape_and_quant(op.weights, (first, *new, last))
    yield f"kernel {op.kernel} → {new}", with_inferred_result(op.substitute({op.weights: weights}))


def suggest_fewer_channels(op: Conv2d | DepthwiseConv2d) -> Iterator[Fixit]:
    """Suggests fewer input channels, in blocks of 4 or 8 pipelines, else a smaller kernel."""
    for block in (4, 8):
        channels = limits.MAX_DOT_PRODUCT // math.prod(op.kernel) // block * block
        if channels:
            yield f"input channels {op.in_channels} → {channels}", _with_channels(op, channels)
    side = math.isqrt(limits.MAX_DOT_PRODUCT // (-(-op.in_channels // 8) * 8))
    kernel = tuple(min(side, k) for k in op.kernel)
    if side:
        weights = with_shape_and_quant(op.weights, (op.weights.shape[0], *kernel, op.weights.shape[3]))
        yield f"kernel {op.kernel} → {kernel}", with_inferred_result(dataclasses.replace(op, weights=weights))


def _with_channels(op: Conv2d | DepthwiseConv2d, channels: int) -> Op:
    first, height, width, _ = op.weights.shape
    x = with_shape_and_quant(op.x, (*op.x.shape[:3], channels))
    if isinstance(op, Conv2d):
        weights = with_shape_and_quant(op.weights, (first, height, width, channels // op.groups))
        return dataclasses.replace(op, x=x, weights=weights)
    return _with_filters(dataclasses.replace(op, x=x), channels * op.depth_multiplier)


def _with_filters(op: DepthwiseConv2d, count: int) -> Op:
    quant = largest_channel_scale(op.weights)
    weights = with_shape_and_quant(op.weights, (*op.weights.shape[:3], count), quant)
    bias = with_shape_and_quant(op.bias, (count,), PerTensor(quant.scale * op.x.scale))
    return with_inferred_result(dataclasses.replace(op, weights=weights, bias=bias))


def suggest_single_group(op: Conv2d) -> Iterator[Fixit]:
    """Suggests one group: every output channel reads all input channels."""
    weights = with_shape_and_quant(op.weights, (*op.weights.shape[:3], op.in_channels))
    yield f"groups {op.groups} → 1", dataclasses.replace(op, weights=weights, groups=1)


def suggest_no_depth_multiplier(op: DepthwiseConv2d) -> Iterator[Fixit]:
    """Suggests the depth multiplier 1."""
    words = f"output channels {op.out_channels} → {op.in_channels}, as many as input channels"
    yield words, _with_filters(op, op.in_channels)


def suggest_no_padding(op: Convolution | Pool) -> Iterator[Fixit]:
    """Suggests no padding, if the window fits into the image."""
    bare: Convolution | Pool = dataclasses.replace(op, padding=(0, 0, 0, 0))
    if min(bare.output_shape) > 0:
        yield "no padding (or count_include_pad=True)", with_inferred_result(bare)
