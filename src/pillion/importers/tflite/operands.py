# SPDX-License-Identifier: Apache-2.0
"""What the rows ask of the operands, and of the ops that they make."""

from __future__ import annotations

import numpy as np

from pillion.importers.tflite.model import ReadOperator
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.sizes import check_sizes
from pillion.ir.types import LEAST_SCALE, DType, PerChannel, PerTensor, Quant, Value, constant


def int8_only(call: ReadOperator, operands: int = 1) -> None:
    """Refuses results and the first operands that are not int8 with one scale."""
    for value in (*call.inputs[:operands], *call.outputs):
        if value is None or value.dtype is not DType.INT8 or not isinstance(value.type.quant, PerTensor):
            raise call.refuse(
                "operators compute on int8 with one scale",
                repr(value),
                "convert with full integer quantization",
            )


def with_axes(call: ReadOperator, value: Value, rank: int) -> Value:
    """Gives an operand back if it has so many axes, and refuses it otherwise."""
    if value.type.rank != rank:
        raise call.refuse(f"`{value.name}` has {rank} axes", list(value.shape))
    return value


def accumulator(call: ReadOperator, x: Value, weights: Value) -> Quant:
    """Gives the quantization of sums; refuses weights that are not symmetric."""
    match weights.type.quant:
        case PerChannel(scales):
            return PerChannel(tuple(max(x.scale * scale, LEAST_SCALE) for scale in scales), 0)
        case PerTensor(scale, 0):
            return PerTensor(max(x.scale * scale, LEAST_SCALE))
        case quant:
            raise call.refuse(
                "weights are quantized with zero point 0",
                quant,
                "convert with target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]: weights are around zero then",
            )


def bias_of(call: ReadOperator, number: int, x: Value, weights: Value, channels: int) -> Value:
    """Gives the bias with the scale of the sums, zeros where there is none."""
    if 0 in weights.shape:  # such a shape takes no bytes in the file, and its other axes may claim any size
        raise call.refuse("weights have at least one element", repr(weights))
    quant = accumulator(call, x, weights)
    given = call.optional(number)
    if given is None:
        return constant(call.fresh(f"{call.result.name}/bias"), np.zeros(channels, np.int32), quant)
    data, name = call.constant(number).constant, given.name
    if given.type.quant is not None:
        name = call.fresh(name)  # shared by operators with different scales
    made = constant(name, data, quant)
    call.bind(given, made)
    return made


def checked(call: ReadOperator, op: Op) -> Op:
    """Gives the op back, if the file says of its result what the op makes."""
    op.check()
    made, declared = op.infer(), op.results[0]
    if (made.shape, made.dtype) != (declared.shape, declared.dtype):
        raise call.refuse(f"the result is {made.dtype.value}{list(made.shape)}", repr(declared))
    check_sizes(op)
    op.check_scales(Arithmetic.TFLITE)
    return op
