# SPDX-License-Identifier: Apache-2.0
"""Exact TFLite forms: padding codes, activation codes, and the refusal of everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pillion.codecs.tflite.node import Node
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import (
    LEAST_SCALE,
    DType,
    Pair,
    PerChannel,
    PerTensor,
    Quant,
    Shape,
    Sides,
    TensorType,
    Value,
    constant_value,
)
from pillion.ops.layer import Layer
from pillion.ops.lut_tflite import activation_levels
from pillion.schemas.tflite import Activation, MaximumMinimumOptions, Padding

FUSED = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
"""Activations that an operator can fuse."""


def inexact_op_error(op: Op, rule: str, here: object, help: str = "") -> PillionError:
    """Returns the error for an op without an exact TFLite form."""
    return op.refuse(rule, here, help, "has no exact TFLite form")


def int8_only(op: Op, *values: Value) -> None:
    """Raises unless these values are int8 with one scale; by default the op's activations and results."""
    for value in values or (*op.activations, *op.results):
        if value.dtype is not DType.INT8 or not isinstance(value.type.quant, PerTensor):
            raise inexact_op_error(
                op, "arithmetic is on int8 with one scale", repr(value), "quantize the model"
            )


def int8_or_16_only(op: Op, *values: Value) -> None:
    """Raises unless these values are int8 with one scale, or all are int16 with zero point 0; by default the op's
    activations and results."""
    values = values or (*op.activations, *op.results)
    if {value.dtype for value in values} != {DType.INT16}:
        int8_only(op, *values)
    for value in values:
        if value.dtype is DType.INT16 and (not isinstance(value.type.quant, PerTensor) or value.zero_point):
            raise inexact_op_error(op, "int16 tensors have one scale and zero point 0", repr(value))


def require_constants(op: Op, *values: Value) -> None:
    """Raises if weights or bias are not constant."""
    for value in values:
        if not value.is_constant:
            raise inexact_op_error(op, "weights and bias are constants", repr(value))


def symmetric_weights(op: Op, weights: Value) -> Value:
    """Returns the weights; raises if their zero point is not 0."""
    if isinstance(weights.type.quant, PerTensor) and weights.zero_point:
        raise inexact_op_error(op, "weights have zero point 0", weights.zero_point)
    return weights


def scaled_bias(op: Layer) -> Value:
    """Returns the bias with the accumulator's scale; files have int64 with 16-bit operands (`Node.int64`)."""
    return constant_value(op.bias.name, op.bias.constant, accumulator_quantization(op.x, op.weights))


def accumulator_quantization(x: Value, weights: Value) -> Quant:
    """Returns the quantization of sums of products."""
    scales = tuple(max(x.scale * scale, LEAST_SCALE) for scale in weights.channel_scales.tolist())
    return PerChannel(scales, 0) if isinstance(weights.type.quant, PerChannel) else PerTensor(scales[0])


INT16_FORM = (
    "LiteRT has sums, products and functions of 16 bits whose tensors are all int16 with zero point 0; its functions are "
    "abs, exp, gelu, leaky relu, log, rsqrt and sqrt, and sigmoid and tanh in steps of 2^-15"
)

UNSIGNED_BY = 128
"""The offset between uint8 numbers and the int8 numbers as which they are read."""


def as_uint8(type: TensorType) -> TensorType:
    """Returns the uint8 type of an int8 tensor."""
    quant = type.quant
    assert isinstance(quant, PerTensor)
    return TensorType(type.shape, DType.UINT8, PerTensor(quant.scale, quant.zero_point + UNSIGNED_BY))


def padding_code(
    image: Shape, result: Shape, kernel: Pair, stride: Pair, dilation: Pair, padding: Sides
) -> Padding | None:
    """Returns VALID or SAME if it gives the same windows as these paddings, else None. Beyond the number of
    windows, the bottom and right padding does not matter."""
    axes = list(zip(image[1:3], result[1:3], kernel, stride, dilation, padding[:2], strict=True))
    if all(before == 0 and (out - 1) * s + d * (k - 1) + 1 <= size for size, out, k, s, d, before in axes):
        return Padding.VALID if all(_is_valid_size(*axis[:5]) for axis in axes) else None
    return Padding.SAME if all(_is_same(*axis) for axis in axes) else None


def _is_valid_size(size: int, out: int, kernel: int, stride: int, dilation: int) -> bool:
    return out == (size - dilation * (kernel - 1) - 1) // stride + 1


def _is_same(size: int, out: int, kernel: int, stride: int, dilation: int, before: int) -> bool:
    total = max((out - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return out == -(-size // stride) and before == total // 2


def with_fused_activation(op: Any, node: Node) -> list[Node]:
    """Returns the operator with an op's bounds as a fused activation if one matches, otherwise followed by
    explicit bounds."""
    (y,) = node.outputs
    options: Any = node.options
    for activation in FUSED:
        if activation_levels(activation.name, y.quant, y.dtype) == (op.low, op.high):
            return [replace(node, options=replace(options, fused_activation=activation))]
    unbounded = Value(f"{op.name}/unbounded", y.type)
    return [replace(node, outputs=(unbounded,)), *bounds_as_min_max(op, unbounded, y)]


def bounds_as_min_max(op: Any, x: Value, y: Value) -> list[Node]:
    """Returns a minimum with an op's upper bound and a maximum with its lower one, as far as they have an
    effect."""
    least, most = y.dtype.bounds
    steps = [("MINIMUM", "high", op.high)] if op.high < most or op.low == least else []
    steps += [("MAXIMUM", "low", op.low)] if op.low > least else []
    nodes: list[Node] = []
    for number, (code, side, level) in enumerate(steps):
        result = y if number == len(steps) - 1 else Value(f"{op.name}/{side}", y.type)
        # A bound with an axis would add one to a scalar result.
        bound = constant_value(
            f"{op.name}/{side}_bound", np.full(y.shape and (1,), level, y.dtype.numpy), y.quant
        )
        nodes.append(Node(code, (x, bound), (result,), MaximumMinimumOptions()))
        x = result
    return nodes
