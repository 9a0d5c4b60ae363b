# SPDX-License-Identifier: Apache-2.0
"""Reads weights with a zero point. Without it they range from -255 to 255, so they become sums of int8
weights on repeated operands."""

from __future__ import annotations

import dataclasses

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.op import Op
from pillion.ir.types import Array, PerTensor, Value, constant_value
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.schemas import tflite

WEIGHTED = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 2}
"""Operators with weights as second operand, and the index of their image."""
LOW, HIGH = -128, 127


def lower_weight_zero_points(call: ReadOperator, row: Reading) -> list[Op]:
    """Returns the ops of an operator whose weights may have a zero point."""
    weights = call.optional(1)
    if weights is None or not isinstance(weights.type.quant, PerTensor) or not weights.zero_point:
        return row(call)
    parts = _int8_weight_parts(call.constant(1))
    if len(parts) == 1:
        return row(_with_operands(call, {1: _weight_constant(call, weights, parts[0])}))
    x = call.operand(WEIGHTED[call.code])
    sums_channels = x.type.rank == 4 and x.shape[-1] == weights.shape[-1] and call.code != "DEPTHWISE_CONV_2D"
    if call.code == "FULLY_CONNECTED" or sums_channels:
        return _repeat_channels(call, row, weights, parts)
    return [
        repeated
        for op in row(_with_operands(call, {1: _weight_constant(call, weights, parts[0])}))
        for repeated in _repeat_rows(call, op, weights, parts)
    ]


def _with_operands(call: ReadOperator, changed: dict[int, Value]) -> ReadOperator:
    """Returns the operator with some operands replaced."""
    inputs = tuple(changed.get(number, value) for number, value in enumerate(call.inputs))
    return dataclasses.replace(call, inputs=inputs)


def _weight_constant(call: ReadOperator, weights: Value, data: Array) -> Value:
    return constant_value(call.fresh(weights.name), data, PerTensor(weights.scale))


def _int8_weight_parts(weights: Value) -> list[Array]:
    """Returns weights minus their zero point, as a sum of int8 arrays."""
    left = weights.constant.astype(np.int32) - weights.zero_point
    parts: list[Array] = []
    while not parts or left.any():
        part = np.clip(left, LOW, HIGH)
        parts.append(part.astype(np.int8))
        left = left - part
    return parts


def _repeat_channels(call: ReadOperator, row: Reading, weights: Value, parts: list[Array]) -> list[Op]:
    """Repeats the channels once per int8 part."""
    number, features = WEIGHTED[call.code], weights.shape[-1]
    x, chain = call.operand(number), OpChain(call)
    is_flat = (
        call.code == "FULLY_CONNECTED" and not call.options_as(tflite.FullyConnectedOptions).keep_num_dims
    )
    if is_flat and x.type.elements % features == 0:
        x = chain.reshape(x, (x.type.elements // features, features))
    if x.type.rank < 1 or x.shape[-1] != features:
        raise call.refuse(f"the operand is rows of {features} elements", list(x.shape))
    y = chain.concat((x,) * len(parts), x.type.rank - 1, "channels")
    changed = {number: y, 1: _weight_constant(call, weights, np.concatenate(parts, -1))}
    return [*chain.ops, *row(_with_operands(call, changed))]


def _repeat_rows(call: ReadOperator, op: Op, weights: Value, parts: list[Array]) -> list[Op]:
    """Repeats the rows of image and kernel once per int8 part, for sums over the window only. A dilation
    becomes rows of zeros."""
    if not isinstance(op, (Conv2d, DepthwiseConv2d)):
        return [op]
    x, count = op.x, len(parts)
    n, h, w, c = x.shape
    before = OpChain(call)
    rows = before.reshape(before.concat((x,) * count, 2, "twice"), (n, h * count, w, c), "rows")
    stacked = np.stack([_dilate_rows(part, op.dilation[0]) for part in parts], axis=2)
    shape = (stacked.shape[0], stacked.shape[1] * count, *stacked.shape[3:])
    top, left, bottom, right = op.padding
    repeated = dataclasses.replace(
        op,
        x=rows,
        weights=_weight_constant(call, weights, stacked.reshape(shape)),
        stride=(op.stride[0] * count, op.stride[1]),
        dilation=(1, op.dilation[1]),
        padding=(top * count, left, bottom * count, right),
    )
    return [*before.ops, repeated]


def _dilate_rows(weights: Array, dilation: int) -> Array:
    """Returns weights with zeros between their rows."""
    shape = list(weights.shape)
    shape[1] = (shape[1] - 1) * dilation + 1
    dilated = np.zeros(shape, weights.dtype)
    dilated[:, ::dilation] = weights
    return dilated
