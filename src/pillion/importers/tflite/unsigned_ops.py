# SPDX-License-Identifier: Apache-2.0
"""Operators on uint8: most of LiteRT's kernels compute as those for int8 do, with all numbers and zero points smaller by 128. Weights
have a zero point of their own; convolutions form their multiplier from a product of scales in float32."""

from __future__ import annotations

import dataclasses

import numpy as np

from pillion.importers.tflite.geometry import sides
from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, PerTensor, Value, constant
from pillion.ops.conv import Convolution
from pillion.ops.movement import Concat
from pillion.schemas import tflite

SAME = frozenset(
    {
        *("ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM", "PRELU", "LEAKY_RELU", "RELU", "RELU6", "RELU_N1_TO_1"),
        *("RELU_0_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "GELU", "SOFTMAX", "LOG_SOFTMAX", "MAX_POOL_2D"),
        *("MEAN", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_NEAREST_NEIGHBOR", "CONCATENATION", "SPLIT", "SPLIT_V"),
        *("PACK", "UNPACK", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "SHAPE", "RESHAPE", "SQUEEZE"),
        *("EXPAND_DIMS", "TRANSPOSE", "REVERSE_V2", "QUANTIZE", "DEQUANTIZE", "GATHER", "TILE"),
        *("ARG_MAX", "ARG_MIN", "CUSTOM TFLite_Detection_PostProcess"),
    }
)
"""The operators that make the same of uint8 numbers as of int8 ones, which the tests compare."""
WEIGHTED = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 2}
"""The operators whose second operand is weights, and where their image is."""
SUMMED = ("CONV_2D", "FULLY_CONNECTED")
"""Those that add products over the channels, so that channels may be there twice."""
LOW, HIGH = -128, 127
TO_INT8 = "convert with full integer quantization to int8"
REASONS = {
    "RESIZE_BILINEAR": "LiteRT interpolates uint8 images in float32, and int8 ones in integers",
    "CAST": "a cast gives the numbers of a tensor, not what they stand for: those of uint8 and of int8 differ",
}
"""Why an operator on uint8 is not read, where more is known than that it was not compared."""


def unsigned(call: ReadOperator, row: Reading) -> Reading:
    """Gives the reading of an operator on uint8: that of the one on int8, where LiteRT computes the same or the difference can be
    said."""
    if call.code in WEIGHTED:
        return lambda one: _weighted(one, row)
    if call.code == "AVERAGE_POOL_2D":
        _want_no_ties(call)
    elif call.code not in SAME:
        rule = REASONS.get(
            call.code, "LiteRT does not have this operator for uint8, or rounds it otherwise than for int8"
        )
        raise call.refuse(rule, f"{call.code} on uint8", TO_INT8)
    return row


def _want_no_ties(call: ReadOperator) -> None:
    """Means of uint8 round halves up, those of int8 away from zero: where windows have odd counts there are no halves."""
    options, image = call.options_as(tflite.Pool2DOptions), call.operand(0).shape
    kernel, stride = (options.filter_h, options.filter_w), (options.stride_h, options.stride_w)
    padding = sides(call, options.padding, image, kernel, stride, (1, 1))
    if any(padding) or kernel[0] * kernel[1] % 2 == 0:
        raise call.refuse(
            "uint8: a mean is of an odd number of pixels, without padding (LiteRT rounds halves otherwise than for int8)",
            f"kernel {kernel}, padding {padding}",
            TO_INT8,
        )


def _weighted(call: ReadOperator, row: Reading) -> list[Op]:
    """Weights around zero are int8; what is beyond goes to a second copy of the channels."""
    place, weights = WEIGHTED[call.code], call.constant(1)
    before: list[Op] = []
    if isinstance(weights.type.quant, PerTensor) and weights.zero_point:
        parts = _in_int8(weights)
        inputs = list(call.inputs)
        inputs[1] = constant(call.fresh(weights.name), np.concatenate(parts, -1), PerTensor(weights.scale))
        if len(parts) > 1:
            before, inputs[place] = _repeated(call, call.operand(place), weights, len(parts))
        call = dataclasses.replace(call, inputs=tuple(inputs))
    return [*before, *map(_as_in_uint8, row(call))]


def _in_int8(weights: Value) -> list[Array]:
    """Weights whose zero point is 0, as sums of int8 numbers."""
    left = weights.constant.astype(np.int32) - weights.zero_point
    parts: list[Array] = []
    while not parts or left.any():
        part = np.clip(left, LOW, HIGH)
        parts.append(part.astype(np.int8))
        left = left - part
    return parts


def _repeated(call: ReadOperator, x: Value, weights: Value, count: int) -> tuple[list[Op], Value]:
    """The operand with its channels so many times, one behind another."""
    if call.code not in SUMMED or x.type.rank < 1 or x.shape[-1] != weights.shape[-1]:
        raise call.refuse(
            f"uint8 weights less their zero point are from {LOW} to {HIGH}, where channels are not summed",
            f"zero point {weights.zero_point + 128}",
            TO_INT8,
        )
    y = call.intermediate("channels", (*x.shape[:-1], x.shape[-1] * count), x)
    return [Concat(xs=(x,) * count, y=y, axis=x.type.rank - 1, source=call.source)], y


def _as_in_uint8(op: Op) -> Op:
    """Convolutions are given the multiplier of uint8 tensors, where it is another one."""
    if not isinstance(op, Convolution) or len(op.weights.channel_scales) != 1:
        return op
    found = op.from_scales_in_uint8()
    follow = set(op.from_scales(Arithmetic.TFLITE))
    return op if follow == set(found) else dataclasses.replace(op, given=found)
