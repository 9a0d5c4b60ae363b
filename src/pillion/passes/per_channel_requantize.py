# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.types import PerChannel, Quant, TensorType, Value, constant
from pillion.ops import Concat, Conv2d, DepthwiseConv2d, Reshape

FEW_CHANNELS = 8
"""Input channels that an NPU's dot product takes in one step: up to here, zero weights cost nothing."""


def per_channel_requantize(graph: Graph) -> Graph:
    """Rewrites depthwise convolutions with several filters per channel for NPUs that have one filter per
    channel: with few channels as a convolution padded with zero weights, else as one depthwise
    convolution per filter and a concat."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda _, op: _rewrite_depthwise(op, names))


def _rewrite_depthwise(op: Op, names: UniqueNames) -> list[Op] | None:
    if not isinstance(op, DepthwiseConv2d) or not has_depth_multiplier(op):
        return None
    return (
        [as_regular_conv(op, names)] if op.in_channels <= FEW_CHANNELS else list(_convs_per_filter(op, names))
    )


def has_depth_multiplier(op: DepthwiseConv2d) -> bool:
    """Whether a depthwise convolution has several filters per channel, with known weights and scales."""
    known = op.weights.is_constant and op.bias.is_constant and not why_multipliers_explicit(op)
    return op.depth_multiplier > 1 and known


def _shared_conv_fields(op: DepthwiseConv2d) -> dict[str, object]:
    names = ("stride", "dilation", "padding", "low", "high", "source")
    return {name: getattr(op, name) for name in names}


def as_regular_conv(op: DepthwiseConv2d, names: UniqueNames) -> Op:
    """Returns the equivalent convolution, padded with zero weights."""
    kernel = op.weights.constant  # [1, h, w, channel * multiplier + filter]
    dense = np.zeros((op.out_channels, *op.kernel, op.in_channels), kernel.dtype)
    for out in range(op.out_channels):
        dense[out, ..., out // op.depth_multiplier] = kernel[0, ..., out]
    weights = constant(
        names.fresh(f"{op.weights.name}_plain"), dense, _scales_on_first_axis(op.weights.type.quant)
    )
    conv: Op = Conv2d(x=op.x, weights=weights, bias=op.bias, y=op.y, **_shared_conv_fields(op))  # type: ignore[arg-type]  # those of both
    return conv


def _scales_on_first_axis(quant: Quant | None) -> Quant | None:
    """Moves per-channel scales to the first axis, where a convolution's weights have them."""
    return PerChannel(quant.scales, 0) if isinstance(quant, PerChannel) else quant


def _convs_per_filter(op: DepthwiseConv2d, names: UniqueNames) -> Iterator[Op]:
    multiplier = op.depth_multiplier
    n, h, w, _ = op.y.shape
    column = (n, h, w, op.in_channels, 1)
    columns = []
    for number in range(multiplier):
        filters = slice(number, None, multiplier)
        weights, bias = (
            constant(
                names.fresh(f"{v.name}_{number}"),
                v.constant[..., filters],
                _quant_of_filters(v.type.quant, filters),
            )
            for v in (op.weights, op.bias)
        )
        y = _value_like(op.y, (n, h, w, op.in_channels), names.fresh(f"{op.name}_{number}"))
        yield dataclasses.replace(op, weights=weights, bias=bias, y=y, given=())
        columns.append(_value_like(op.y, column, names.fresh(f"{op.name}_{number}_column")))
        yield Reshape(x=y, y=columns[-1], source=op.source)
    side_by_side = _value_like(op.y, (*column[:-1], multiplier), names.fresh(f"{op.name}_columns"))
    yield Concat(xs=tuple(columns), y=side_by_side, axis=4, source=op.source)
    yield Reshape(x=side_by_side, y=op.y, source=op.source)


def _quant_of_filters(quant: Quant | None, filters: slice) -> Quant | None:
    return PerChannel(quant.scales[filters], quant.axis) if isinstance(quant, PerChannel) else quant


def _value_like(value: Value, shape: tuple[int, ...], name: str) -> Value:
    return Value(name, TensorType(shape, value.dtype, value.type.quant))
