# SPDX-License-Identifier: Apache-2.0
"""Reads operators on uint8. Most of LiteRT's uint8 kernels match its int8 kernels on numbers reduced by 128. Weights
have a zero point, and convolutions multiply their scales in float32."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from pillion.codecs.tflite.exact import UNSIGNED_BY
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.weight_zero_points import WEIGHTED, lower_weight_zero_points
from pillion.ir.numerics import Arithmetic, clamp_to_int8, round_half_away
from pillion.ir.op import Op
from pillion.ir.types import Array, Value, constant_value
from pillion.ops.conv import Convolution
from pillion.ops.formats import Requantize
from pillion.ops.lut import Lut
from pillion.ops.pool import AvgPool2d, AvgPool2dUp
from pillion.ops.resize import ResizeBilinear, ResizeBilinearFloat
from pillion.ops.unary_functions import Function

SAME = frozenset({
    "ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM", "PRELU", "LEAKY_RELU", "RELU", "RELU6", "RELU_N1_TO_1",
    "RELU_0_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "GELU", "SOFTMAX", "LOG_SOFTMAX", "MAX_POOL_2D", "MEAN",
    "REDUCE_MAX", "REDUCE_MIN", "RESIZE_NEAREST_NEIGHBOR", "CONCATENATION", "SPLIT", "SPLIT_V", "PACK",
    "UNPACK", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "SHAPE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS",
    "TRANSPOSE", "REVERSE_V2", "QUANTIZE", "DEQUANTIZE", "GATHER", "TILE", "ARG_MAX", "ARG_MIN",
    "L2_NORMALIZATION", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND",
    "MIRROR_PAD", "GATHER_ND", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL",
    "SELECT", "SELECT_V2", "ONE_HOT", "TOPK_V2", "EMBEDDING_LOOKUP", "SCATTER_ND", "REVERSE_SEQUENCE",
    "DYNAMIC_UPDATE_SLICE", "RANK", "CUSTOM TFLite_Detection_PostProcess",
})  # fmt: skip
"""Operators with the same results on uint8 as on int8, which tests compare."""
OWN = {"AVERAGE_POOL_2D": AvgPool2d, "RESIZE_BILINEAR": ResizeBilinear}
"""Operators with other rounding on uint8, and their op on int8."""
TO_INT8 = "convert with full integer quantization to int8"
REASONS = {
    "CAST": "a cast gives the numbers of a tensor, not what they stand for: those of uint8 and of int8 differ"
}
"""Why an operator on uint8 is refused, if a reason is known."""


def uint8_reader(call: ReadOperator, row: Reading) -> Reading:
    """Returns the reader of an operator on uint8: that for int8 if LiteRT computes the same or the difference
    is known."""
    if call.is_mixed and call.code != "QUANTIZE":
        rule = "the tensors of an operator are all int8 or all uint8: LiteRT refuses others, but for QUANTIZE"
        raise call.refuse(rule, ", ".join(map(repr, (*call.inputs, *call.outputs))), TO_INT8)
    if call.code in WEIGHTED:
        return lambda operator: [_with_uint8_multiplier(op) for op in lower_weight_zero_points(operator, row)]
    if call.code == "CONCATENATION":
        return lambda operator: concat_with_rescaling(operator, row)
    if call.code in OWN:
        return lambda operator: [_with_uint8_rounding(op) for op in row(operator)]
    if call.code not in SAME:
        rule = REASONS.get(
            call.code, "LiteRT does not have this operator for uint8, or rounds it otherwise than for int8"
        )
        raise call.refuse(rule, f"{call.code} on uint8", TO_INT8)
    return row


def _with_uint8_rounding(op: Op) -> Op:
    """Returns the op with LiteRT's rounding on uint8. Averages of odd counts have no ties, so they stay."""
    if isinstance(op, ResizeBilinear):
        return ResizeBilinearFloat(x=op.x, y=op.y, source=op.source, **op.attributes)
    if isinstance(op, AvgPool2d) and (any(op.padding) or math.prod(op.kernel) % 2 == 0):
        return AvgPool2dUp(x=op.x, y=op.y, source=op.source, **op.attributes)
    return op


def concat_with_rescaling(call: ReadOperator, row: Reading) -> list[Op]:
    """Reads a concatenation; operands of another scale are requantized first, in float32 as in LiteRT."""
    y = call.result
    before: list[Op] = []
    inputs = list(call.inputs)
    for number, x in enumerate(call.inputs):
        if x is not None and x.type.quant != y.type.quant and x.is_quantized and y.is_quantized:
            inputs[number] = rescaled = call.intermediate("rescaled", x.shape, y)
            before.append(_requantize_or_lookup(call, x, rescaled))
    return [*before, *row(dataclasses.replace(call, inputs=tuple(inputs)))]


def _requantize_or_lookup(call: ReadOperator, x: Value, y: Value) -> Op:
    """Returns a requantization if it agrees for all 256 numbers, otherwise a lookup table."""
    requantize, numbers = Requantize(x=x, y=y, source=call.source), np.arange(-128, 128).astype(np.int8)
    expected = _rescaled_numbers(x, y)
    if np.array_equal(requantize.reference(Arithmetic.TFLITE, numbers), expected):
        return requantize
    table = constant_value(call.fresh(f"{x.name}/table"), expected)
    return Lut(x=x, table=table, y=y, function=Function.TABLE, source=call.source)


def _rescaled_numbers(x: Value, y: Value) -> Array:
    """Returns all 256 numbers of one scale in another, in float32 as for uint8."""
    scale = np.float32(x.scale) * (np.float32(1) / np.float32(y.scale))
    shifted = np.arange(256).astype(np.float32) * scale + -np.float32(x.zero_point + UNSIGNED_BY) * scale
    levels = round_half_away(shifted.astype(np.float64)) + y.zero_point
    return np.asarray(clamp_to_int8(levels, -128, 127), np.int8)


def _with_uint8_multiplier(op: Op) -> Op:
    """Returns a convolution with the multiplier of uint8 tensors, if it differs."""
    if not isinstance(op, Convolution) or len(op.weights.channel_scales) != 1:
        return op
    multipliers = op.from_scales_in_uint8()
    follow = set(op.from_scales(Arithmetic.TFLITE))
    return op if follow == set(multipliers) else dataclasses.replace(op, explicit=multipliers)
