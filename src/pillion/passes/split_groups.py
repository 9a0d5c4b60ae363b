# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.op import why_multipliers_explicit
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import PerChannel, Value, constant_value
from pillion.ops import Concat, Conv2d, Slice

CHANNELS = 3
"""The channel axis of images."""


@rewrite_pass(Conv2d)
def split_groups(op: Conv2d, at: RewriteSweep) -> Replacement:
    """Splits a grouped convolution into one convolution per group, on slices of the channels, and a concat.
    A convolution with explicit multipliers stays; no NPU takes one."""
    known = op.weights.is_constant and op.bias.is_constant and not why_multipliers_explicit(op)
    if op.groups == 1 or not known:
        return None
    fresh, read, made = at.names.fresh, op.in_channels // op.groups, op.out_channels // op.groups
    parts = [_with_channels(op.x, read, fresh(f"{op.name}_in{group}")) for group in range(op.groups)]
    slices = [
        Slice(x=op.x, y=part, begin=(0, 0, 0, group * read), step=(1, 1, 1, 1), source=op.source)
        for group, part in enumerate(parts)
    ]
    convs = []
    for group, x in enumerate(parts):
        y = _with_channels(op.y, made, fresh(f"{op.name}_out{group}"))
        weights, bias = (
            _output_channels(v, slice(group * made, (group + 1) * made), fresh(f"{v.name}_{group}"))
            for v in (op.weights, op.bias)
        )
        convs.append(dataclasses.replace(op, x=x, weights=weights, bias=bias, y=y, groups=1, explicit=()))
    return [*slices, *convs, Concat(xs=tuple(c.y for c in convs), y=op.y, axis=CHANNELS, source=op.source)]


def _with_channels(image: Value, count: int, name: str) -> Value:
    return image.like(name, shape=(*image.shape[:CHANNELS], count))


def _output_channels(value: Value, channels: slice, name: str) -> Value:
    """Slices weights or bias, with their scales, to some output channels."""
    quant = value.type.quant
    if isinstance(quant, PerChannel) and quant.axis == 0:
        quant = PerChannel(quant.scales[channels], 0)
    return constant_value(name, value.constant[channels], quant)
