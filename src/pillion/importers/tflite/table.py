# SPDX-License-Identifier: Apache-2.0
"""The reader of every supported TFLite operator, as ops with bit-identical results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion import ops
from pillion.codecs.tflite.geometry import levels
from pillion.codecs.tflite.operands import (
    INT8_OR_16,
    bias_of,
    check_declared_shapes,
    require_int8,
    require_one_of,
    weights_of,
)
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.codecs.tflite.rows import READERS
from pillion.importers.tflite import (
    compare_select,
    detections,
    integer_arithmetic,
    lut_functions,
    recurrent,
    scatter,
    signals,
    space_batch,
    while_loops,
)
from pillion.importers.tflite import movement as shapes
from pillion.importers.tflite.constant_folding import fold_constant_ops
from pillion.importers.tflite.matmul import batch_matmul
from pillion.importers.tflite.model import STATEFUL
from pillion.importers.tflite.op_chain import OpChain
from pillion.importers.tflite.transpose_conv import transpose_conv
from pillion.importers.tflite.uint8_ops import uint8_reader
from pillion.importers.tflite.weight_zero_points import lower_weight_zero_points
from pillion.ir import numerics
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops.l2_normalize import FRACTION_BITS
from pillion.ops.layer import zero_dead_channel_biases
from pillion.ops.lut_tflite import activation_levels
from pillion.ops.softmax import OUTPUT_OF_8_BITS
from pillion.schemas import tflite


def ops_of(call: ReadOperator) -> list[Op]:
    """Returns an operator's ops in execution order."""
    row = ROWS.get(call.code)
    if row is None:
        raise call.refuse(f"operators are among {', '.join(ROWS)}", call.code)
    require_form_of_16_bits(call)
    signals.require_no_sign_needed(call)
    if call.is_unsigned:
        row = uint8_reader(call, row)
    try:
        with np.errstate(all="ignore"):  # invalid scales are refused by name
            return fold_constant_ops(call, [check_declared_shapes(call, op) for op in row(call)])
    except ValueError as error:
        raise call.refuse(str(error), ", ".join(map(repr, call.inputs))) from None


OF_16_BITS = (
    "ABS", "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "BATCH_TO_SPACE_ND", "CONCATENATION", "CONV_2D",
    "DEPTHWISE_CONV_2D", "DEQUANTIZE", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "EQUAL", "EXP",
    "EXPAND_DIMS", "FLOOR_DIV", "FLOOR_MOD", "FULLY_CONNECTED", "GATHER", "GATHER_ND", "GELU", "GREATER",
    "GREATER_EQUAL", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG", "LOGISTIC", "MAXIMUM", "MAX_POOL_2D",
    "MEAN", "MINIMUM", "MIRROR_PAD", "MUL", "NEG", "NOT_EQUAL", "PACK", "PAD", "PADV2", "PRELU", "QUANTIZE",
    "RANK", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "RESHAPE", "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR", "REVERSE_SEQUENCE", "REVERSE_V2", "RSQRT", "SELECT", "SELECT_V2", "SHAPE",
    "SLICE", "SOFTMAX", "SPACE_TO_BATCH_ND", "SPLIT", "SPLIT_V", "SQRT", "SQUEEZE", "STRIDED_SLICE", "SUB",
    "SUM", "TANH", "TILE", "TOPK_V2", "TRANSPOSE", "TRANSPOSE_CONV", "UNPACK",
)  # fmt: skip
"""Operators with symmetric 16-bit activations."""
WITHOUT_16_BITS = {
    "DIV": "16-bit quotients are defined in LiteRT: for most scales it shifts small ones by more than 31 places",
    "REDUCE_PROD": "a product of int32 elements: of 16 bits, LiteRT rounds after each factor",
}
"""The reasons why operators that LiteRT has on int16 are not read so."""
NARROWER = (
    "convert with int8 activations: supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8], without "
    "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"
)


def require_form_of_16_bits(call: ReadOperator) -> None:
    """Raises if an operator has no 16-bit form, or its 16-bit tensors another zero point than 0."""
    tensors = (v for v in (*call.inputs, *call.outputs) if v and v.dtype is DType.INT16 and v.is_quantized)
    for value in tensors if call.code not in STATEFUL else ():
        if call.code not in OF_16_BITS:
            rule = f"operators with 16-bit tensors are {len(OF_16_BITS)}: docs/reference/tflite.md lists them"
            rule = WITHOUT_16_BITS.get(call.code, rule)
            raise call.refuse(rule, repr(value), NARROWER)
        quant = value.type.quant
        is_share = call.code in ("SOFTMAX", "QUANTIZE") and quant == OUTPUT_OF_8_BITS
        is_symmetric = isinstance(quant, PerTensor) and not quant.zero_point
        if call.is_unsigned or not (is_share or is_symmetric):
            rule = "16-bit tensors have one scale and zero point 0, and no uint8 next to them"
            raise call.refuse(rule, repr(value), NARROWER)


def _read_linear(call: ReadOperator) -> list[Op]:
    """Reads a fully connected layer on rows of features; without keep_num_dims, all axes before the features
    become one."""
    require_int8(call, types=INT8_OR_16)
    options = call.options_as(tflite.FullyConnectedOptions)
    x, y = call.operand(0), call.result
    weights = weights_of(call, x, 2)
    out, features = weights.shape
    if options.weights_format or x.type.elements % features:
        raise call.refuse(f"the operand is rows of {features} elements, weights are [out, in]", list(x.shape))
    bias, bounds = bias_of(call, 2, x, weights, out), levels(call, y, options.fused_activation)
    rows = x.shape if options.keep_num_dims else (x.type.elements // features, features)
    chain = OpChain(call)
    x = chain.reshape(x, rows)
    chain.add(ops.Linear, y, (*rows[:-1], out), y, x=x, weights=weights, bias=bias, **bounds)
    *before, linear = chain.ops
    assert isinstance(linear, ops.Linear)
    if x.dtype is DType.INT16 and linear.largest_scaled_sum > numerics.INT32_MAX - 256:
        raise call.refuse("scaled sums fit 32 bits", f"up to {linear.largest_scaled_sum:.3g}")
    is_wide = x.dtype is DType.INT16  # scaled in double precision, in which no ratio is 0
    return chain.ops if is_wide else [*before, zero_dead_channel_biases(linear, call.fresh)]


def _read_clamp(call: ReadOperator) -> list[Op]:
    """Reads a function of the relu family. In 16 bits, a different result scale becomes a preceding leaky relu with
    slope 1."""
    require_int8(call, types=INT8_OR_16)
    x, y, chain = call.operand(0), call.result, OpChain(call)
    low, high = activation_levels(call.code, y.quant, y.dtype)
    if y.dtype is DType.INT16 and x.quant != y.quant:
        slope = {"function": ops.Function.LEAKY_RELU, "alpha": 1.0}
        x = chain.add(ops.Lut, "rescaled", y.shape, y, x=x, **slope)
    chain.add(ops.Clamp, y, x.shape, y, x=x, low=low, high=high)
    return chain.ops


def _read_quantize(call: ReadOperator) -> list[Op]:
    x, y = call.operand(0), call.result
    if (x.dtype, y.dtype) == (DType.INT16, DType.INT32):
        return [ops.Requantize(x=x, y=_quantized_int32(call, y), to=y.dtype, source=call.source)]
    if y.dtype not in INT8_OR_16 or not isinstance(y.type.quant, PerTensor):
        rule = "the result is int8 or int16 with one scale, or int32 if the operand is int16"
        raise call.refuse(rule, repr(y))
    if x.dtype is DType.FLOAT32:
        return [ops.Quantize(x=x, y=y, source=call.source)]
    require_one_of(call, x, *INT8_OR_16)
    return [ops.Requantize(x=x, y=y, to=y.dtype, source=call.source)]


def _quantized_int32(call: ReadOperator, y: Value) -> Value:
    """Returns an int32 tensor with its scale. Other operators read its numbers as they are."""
    declared = call.quantization(y)
    if declared is None or len(declared.scale) != 1 or any(declared.zero_point):
        raise call.refuse("int32 results have one scale and zero point 0", repr(declared))
    quantized = Value(y.name, replace(y.type, quant=PerTensor(declared.scale[0])))
    call.bind(y, quantized)
    return quantized


def _read_dequantize(call: ReadOperator) -> list[Op]:
    x = call.operand(0)
    if x.dtype not in INT8_OR_16 or x.type.quant is None:
        raise call.refuse("the operand is quantized int8 or int16", repr(x))
    return [ops.Dequantize(x=x, y=call.result, source=call.source)]


def _l2_normalize(call: ReadOperator) -> list[Op]:
    """Reads an L2 normalization. LiteRT shifts uint8 elements before the multiplication, int8 elements after
    it."""
    require_int8(call)
    activation = call.options_as(tflite.L2NormOptions).fused_activation
    if activation:
        raise call.refuse("a norm has no activation", activation, "an activation of its own behind it")
    headroom = FRACTION_BITS if call.is_unsigned else 0
    return [ops.L2Normalize(x=call.operand(0), y=call.result, headroom=headroom, source=call.source)]


ROWS: dict[str, Reading] = {
    **READERS,
    "FULLY_CONNECTED": lambda call: lower_weight_zero_points(call, _read_linear),
    "RELU": _read_clamp,
    "RELU6": _read_clamp,
    "RELU_N1_TO_1": _read_clamp,
    "RELU_0_TO_1": _read_clamp,
    "L2_NORMALIZATION": _l2_normalize,
    "CONCATENATION": shapes.concat,
    "SPLIT": shapes.split,
    "SPLIT_V": shapes.split_v,
    "PACK": shapes.pack,
    "UNPACK": shapes.unpack,
    "SLICE": shapes.slice,
    "STRIDED_SLICE": shapes.strided_slice,
    "PAD": shapes.pad,
    "PADV2": shapes.padv2,
    "SHAPE": shapes.shape_of,
    "RESHAPE": shapes.reshape,
    "SQUEEZE": shapes.squeeze,
    "EXPAND_DIMS": shapes.expand_dims,
    "REVERSE_V2": shapes.reverse,
    "QUANTIZE": _read_quantize,
    "DEQUANTIZE": _read_dequantize,
    "BATCH_MATMUL": batch_matmul,
    "TRANSPOSE_CONV": transpose_conv,
    **compare_select.ROWS,
    **space_batch.ROWS,
    **recurrent.ROWS,
    **detections.ROWS,
    **lut_functions.ROWS,
    **integer_arithmetic.ROWS,
    **scatter.ROWS,
    **signals.ROWS,
    "WHILE": while_loops.loop(while_loops.int8_body(ops_of)),
}
ROWS |= {
    code: integer_arithmetic.by_type(ROWS[code], rows)
    for code, rows in integer_arithmetic.OF_OTHER_TYPES.items()
}
"""The reader of each operator, by its name in the format."""
