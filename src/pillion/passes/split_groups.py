# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.types import PerChannel, Value, constant
from pillion.ops import Concat, Conv2d, Slice

CHANNELS = 3
"""The channel axis of images."""


def split_groups(graph: Graph) -> Graph:
    """Splits a grouped convolution into one convolution per group, on slices of the channels, and a concat.
    A convolution with explicit multipliers stays; no NPU takes one."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda _, op: _split_conv(op, names))


def _split_conv(op: Op, names: UniqueNames) -> list[Op] | None:
    if not isinstance(op, Conv2d) or op.groups == 1 or not (op.weights.is_constant and op.bias.is_constant):
        return None
    if why_multipliers_explicit(op):
        return None
    slices = [_group_slice(op, group, names) for group in range(op.groups)]
    convs = [_group_conv(op, group, part.y, names) for group, part in enumerate(slices)]
    joined = Concat(xs=tuple(conv.y for conv in convs), y=op.y, axis=CHANNELS, source=op.source)
    return [*slices, *convs, joined]


def _group_slice(op: Conv2d, group: int, names: UniqueNames) -> Slice:
    count = op.in_channels // op.groups
    part = _with_channels(op.x, count, names.fresh(f"{op.name}_in{group}"))
    return Slice(x=op.x, y=part, begin=(0, 0, 0, group * count), step=(1, 1, 1, 1), source=op.source)


def _group_conv(op: Conv2d, group: int, x: Value, names: UniqueNames) -> Conv2d:
    count = op.out_channels // op.groups
    y = _with_channels(op.y, count, names.fresh(f"{op.name}_out{group}"))
    weights, bias = (
        _slice_output_channels(v, group * count, count, names.fresh(f"{v.name}_{group}"))
        for v in (op.weights, op.bias)
    )
    return dataclasses.replace(op, x=x, weights=weights, bias=bias, y=y, groups=1, given=())


def _with_channels(image: Value, count: int, name: str) -> Value:
    return Value(name, dataclasses.replace(image.type, shape=(*image.shape[:CHANNELS], count)))


def _slice_output_channels(value: Value, begin: int, count: int, name: str) -> Value:
    """Slices weights or bias, with their scales, to some output channels."""
    quant = value.type.quant
    if isinstance(quant, PerChannel) and quant.axis == 0:
        quant = PerChannel(quant.scales[begin : begin + count], 0)
    return constant(name, value.constant[begin : begin + count], quant)
