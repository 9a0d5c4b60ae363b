# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from pillion.ir.graph import UniqueNames
from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import PerChannel, Value, constant_value
from pillion.ops import Concat, Conv2d, DepthwiseConv2d, Reshape

FEW_CHANNELS = 8
"""Input channels that an NPU's dot product takes in one step: up to here, zero weights cost nothing."""


@rewrite_pass(DepthwiseConv2d)
def per_channel_requantize(op: DepthwiseConv2d, at: RewriteSweep) -> Replacement:
    """Rewrites depthwise convolutions with several filters per channel for NPUs that have one filter per
    channel: with few channels as a convolution padded with zero weights, else as one depthwise
    convolution per filter and a concat."""
    if not has_depth_multiplier(op):
        return None
    is_dense = op.in_channels <= FEW_CHANNELS
    return [as_regular_conv(op, at.names)] if is_dense else list(_convs_per_filter(op, at.names))


def has_depth_multiplier(op: DepthwiseConv2d) -> bool:
    """Whether a depthwise convolution has several filters per channel, with known weights and scales."""
    known = op.weights.is_constant and op.bias.is_constant and not why_multipliers_explicit(op)
    return op.depth_multiplier > 1 and known


def as_regular_conv(op: DepthwiseConv2d, names: UniqueNames) -> Op:
    """Returns the equivalent convolution, padded with zero weights."""
    kernel = op.weights.constant  # [1, h, w, channel * multiplier + filter]
    dense = np.zeros((op.out_channels, *op.kernel, op.in_channels), kernel.dtype)
    for out in range(op.out_channels):
        dense[out, ..., out // op.depth_multiplier] = kernel[0, ..., out]
    quant = op.weights.type.quant
    quant = PerChannel(quant.scales, 0) if isinstance(quant, PerChannel) else quant
    return Conv2d(
        x=op.x,
        weights=constant_value(names.fresh(f"{op.weights.name}_plain"), dense, quant),
        bias=op.bias,
        y=op.y,
        stride=op.stride,
        dilation=op.dilation,
        padding=op.padding,
        low=op.low,
        high=op.high,
        source=op.source,
    )


def _convs_per_filter(op: DepthwiseConv2d, names: UniqueNames) -> Iterator[Op]:
    multiplier = op.depth_multiplier
    n, h, w, _ = op.y.shape
    column = (n, h, w, op.in_channels, 1)
    columns = []
    for number in range(multiplier):
        filters = slice(number, None, multiplier)
        weights, bias = (
            _slice_filters(v, filters, names.fresh(f"{v.name}_{number}")) for v in (op.weights, op.bias)
        )
        y = op.y.like(names.fresh(f"{op.name}_{number}"), shape=(n, h, w, op.in_channels))
        yield dataclasses.replace(op, weights=weights, bias=bias, y=y, explicit=())
        columns.append(op.y.like(names.fresh(f"{op.name}_{number}_column"), shape=column))
        yield Reshape(x=y, y=columns[-1], source=op.source)
    side_by_side = op.y.like(names.fresh(f"{op.name}_columns"), shape=(*column[:-1], multiplier))
    yield Concat(xs=tuple(columns), y=side_by_side, axis=4, source=op.source)
    yield Reshape(x=side_by_side, y=op.y, source=op.source)


def _slice_filters(value: Value, filters: slice, name: str) -> Value:
    """Slices weights or bias, with their scales, to some filters."""
    quant = value.type.quant
    quant = PerChannel(quant.scales[filters], quant.axis) if isinstance(quant, PerChannel) else quant
    return constant_value(name, value.constant[..., filters], quant)
