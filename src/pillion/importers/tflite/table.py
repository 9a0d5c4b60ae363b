# SPDX-License-Identifier: Apache-2.0
"""The reader of every supported TFLite operator, as ops with bit-identical results."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion.importers.tflite import (
    compare_select,
    detections,
    integer_arithmetic,
    lut_functions,
    recurrent,
    scatter,
    space_batch,
    while_loops,
)
from pillion.importers.tflite import movement as shapes
from pillion.importers.tflite.constant_folding import folded
from pillion.importers.tflite.geometry import axis_of, levels, sides
from pillion.importers.tflite.matmul import batch_matmul
from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.importers.tflite.operands import bias_of, checked, int8_only, with_axes
from pillion.importers.tflite.output_shapes import with_computed_shapes
from pillion.importers.tflite.reduce import reduction
from pillion.importers.tflite.resize import resize
from pillion.importers.tflite.transpose_conv import transpose_conv
from pillion.importers.tflite.uint8_ops import unsigned
from pillion.importers.tflite.weight_zero_points import in_int8
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops.clamp import (
    Clamp,
)
from pillion.ops.conv import Conv2d, DepthwiseConv2d, without_idle_biases
from pillion.ops.div import Div
from pillion.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.integer_arithmetic import Calculation
from pillion.ops.l2_normalize import FRACTION_BITS, L2Normalize
from pillion.ops.linear import Linear
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.lut import (
    Lut,
)
from pillion.ops.lut_tflite import activation_levels
from pillion.ops.pool import AvgPool2d, MaxPool2d
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import Mean, ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.softmax import OUTPUT, Softmax
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.unary_functions import (
    Function,
)
from pillion.schemas import tflite


def ops_of(call: ReadOperator) -> list[Op]:
    """Returns an operator's ops in execution order."""
    row = ROWS.get(call.code)
    if row is None:
        raise call.refuse(f"operators are among {', '.join(ROWS)}", call.code)
    call = with_computed_shapes(call)
    if call.is_unsigned:
        row = unsigned(call, row)
    try:
        with np.errstate(all="ignore"):  # invalid scales are refused by name
            return folded(call, [checked(call, op) for op in row(call)])
    except ValueError as error:
        raise call.refuse(str(error), ", ".join(map(repr, call.inputs))) from None


def _conv(call: ReadOperator) -> list[Op]:
    options = call.options_as(tflite.Conv2DOptions)
    groups = max(_image(call).shape[3] // _filters(call).shape[3], 1)
    return [_convolution(call, Conv2d, options, 0, groups=groups)]


def _depthwise(call: ReadOperator) -> list[Op]:
    return [_convolution(call, DepthwiseConv2d, call.options_as(tflite.DepthwiseConv2DOptions), 3)]


def _image(call: ReadOperator) -> Value:
    return with_axes(call, call.operand(0), 4)


def _filters(call: ReadOperator) -> Value:
    return with_axes(call, call.constant(1), 4)


def _convolution(call: ReadOperator, cls: Any, options: Any, channel_axis: int, **fields: object) -> Op:
    int8_only(call)
    x, weights, y = _image(call), _filters(call), with_axes(call, call.result, 4)
    stride, dilation = (options.stride_h, options.stride_w), (options.dilation_h, options.dilation_w)
    kernel = (weights.shape[1], weights.shape[2])
    fields.update(stride=stride, dilation=dilation)
    fields.update(padding=sides(call, options.padding, x.shape, kernel, stride, dilation))
    fields.update(levels(call, y, options.fused_activation))
    bias = bias_of(call, 2, x, weights, weights.shape[channel_axis])
    made: Op = cls(x=x, weights=weights, bias=bias, y=y, source=call.source, **fields)
    return without_idle_biases(made, call.fresh)


def _linear(call: ReadOperator) -> list[Op]:
    """Reads a fully connected layer on rows of features; without keep_num_dims, all axes before the features
    become one."""
    int8_only(call)
    options = call.options_as(tflite.FullyConnectedOptions)
    x, weights, y = call.operand(0), with_axes(call, call.constant(1), 2), call.result
    out, features = weights.shape
    if options.weights_format or x.type.elements % features:
        raise call.refuse(f"the operand is rows of {features} elements, weights are [out, in]", list(x.shape))
    bias, bounds = bias_of(call, 2, x, weights, out), levels(call, y, options.fused_activation)
    rows = x.shape if options.keep_num_dims else (x.type.elements // features, features)
    before, x = shapes.reshaped(call, x, rows)
    made = Linear(
        x=x, weights=weights, bias=bias, y=y, source=call.source, low=bounds["low"], high=bounds["high"]
    )
    return [*before, without_idle_biases(made, call.fresh)]


def _arithmetic(cls: Any, options: Any) -> Reading:
    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        y = call.result
        bounds = levels(call, y, call.options_as(options).fused_activation)
        return [cls(a=call.operand(0), b=call.operand(1), y=y, source=call.source, **bounds)]

    return row


def _extremum(cls: Any) -> Reading:
    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        return [cls(a=call.operand(0), b=call.operand(1), y=call.result, source=call.source)]

    return row


def _lut(function: Function) -> Reading:
    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        return [Lut(x=call.operand(0), y=call.result, function=function, table=None, source=call.source)]

    return row


def _gelu(call: ReadOperator) -> list[Op]:
    approximate = call.options_as(tflite.GeluOptions).approximate
    return _lut(Function.GELU_TANH if approximate else Function.GELU)(call)


def _leaky_relu(call: ReadOperator) -> list[Op]:
    int8_only(call)
    x, y, alpha = call.operand(0), call.result, call.options_as(tflite.LeakyReluOptions).alpha
    return [Lut(x=x, y=y, function=Function.LEAKY_RELU, table=None, alpha=alpha, source=call.source)]


def _clamp(call: ReadOperator) -> list[Op]:
    int8_only(call)
    y = call.result
    low, high = activation_levels(call.code, y.quant)
    return [Clamp(x=call.operand(0), y=y, low=low, high=high, source=call.source)]


def _pool(cls: Any) -> Reading:
    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        options = call.options_as(tflite.Pool2DOptions)
        x, y = call.operand(0), call.result
        kernel, stride = (options.filter_h, options.filter_w), (options.stride_h, options.stride_w)
        padding = sides(call, options.padding, x.shape, kernel, stride, (1, 1))
        bounds = levels(call, y, options.fused_activation)
        return [cls(x=x, y=y, kernel=kernel, stride=stride, padding=padding, source=call.source, **bounds)]

    return row


def _mean(call: ReadOperator) -> list[Op]:
    int8_only(call)
    x = call.operand(0)
    axes = tuple(sorted({axis_of(call, axis, x.type.rank) for axis in call.integers(1)}))
    keepdims = call.options_as(tflite.ReducerOptions).keep_dims
    return [Mean(x=x, y=call.result, axes=axes, keepdims=keepdims, source=call.source)]


def _softmax(call: ReadOperator) -> list[Op]:
    int8_only(call)
    beta = call.options_as(tflite.SoftmaxOptions).beta
    if beta != 1:
        raise call.refuse(
            "beta is 1", beta, "multiply by beta in the layer before, whose weights can hold it"
        )
    if call.result.type.quant != OUTPUT:
        raise call.refuse("the result has scale 1/256 and zero point -128", repr(call.result))
    return [Softmax(x=call.operand(0), y=call.result, source=call.source)]


def _log_softmax(call: ReadOperator) -> list[Op]:
    int8_only(call)
    return [LogSoftmax(x=call.operand(0), y=call.result, source=call.source)]


def _quantize(call: ReadOperator) -> list[Op]:
    x, y = call.operand(0), call.result
    if y.dtype is not DType.INT8 or not isinstance(y.type.quant, PerTensor):
        raise call.refuse("the result is int8 with one scale", repr(y))
    if x.dtype is DType.FLOAT32:
        return [Quantize(x=x, y=y, source=call.source)]
    int8_only(call)
    return [Requantize(x=x, y=y, source=call.source)]


def _dequantize(call: ReadOperator) -> list[Op]:
    x = call.operand(0)
    if x.dtype is not DType.INT8 or x.type.quant is None:
        raise call.refuse("the operand is quantized int8", repr(x))
    return [Dequantize(x=x, y=call.result, source=call.source)]


def _prelu(call: ReadOperator) -> list[Op]:
    int8_only(call, 2)
    return [Prelu(x=call.operand(0), slope=call.operand(1), y=call.result, source=call.source)]


def _div(call: ReadOperator) -> list[Op]:
    int8_only(call, 2)
    bounds = levels(call, call.result, call.options_as(tflite.DivOptions).fused_activation)
    op = Div(a=call.operand(0), b=call.operand(1), y=call.result, source=call.source, **bounds)
    if not op.is_defined_in_litert:
        raise call.refuse(
            "the ratio of the scales is so large that LiteRT defines every quotient", repr(op.ratio)
        )
    return [op]


def _squared_difference(call: ReadOperator) -> list[Op]:
    int8_only(call, 2)
    return [SquaredDifference(a=call.operand(0), b=call.operand(1), y=call.result, source=call.source)]


def _l2_normalize(call: ReadOperator) -> list[Op]:
    """Reads an L2 normalization. LiteRT shifts uint8 elements before the multiplication, int8 elements after
    it."""
    int8_only(call)
    activation = call.options_as(tflite.L2NormOptions).fused_activation
    if activation:
        raise call.refuse("a norm has no activation", activation, "an activation of its own behind it")
    headroom = FRACTION_BITS if call.is_unsigned else 0
    return [L2Normalize(x=call.operand(0), y=call.result, headroom=headroom, source=call.source)]


ROWS: dict[str, Reading] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": lambda call: in_int8(call, _linear),
    "ADD": compare_select.or_whole(_arithmetic(Add, tflite.AddOptions), Calculation.ADD),
    "SUB": compare_select.or_whole(_arithmetic(Sub, tflite.SubOptions), Calculation.SUB),
    "MUL": compare_select.or_whole(_arithmetic(Mul, tflite.MulOptions), Calculation.MUL),
    "MINIMUM": compare_select.or_whole(_extremum(Minimum), Calculation.MINIMUM),
    "MAXIMUM": compare_select.or_whole(_extremum(Maximum), Calculation.MAXIMUM),
    "LOGISTIC": _lut(Function.SIGMOID),
    "TANH": _lut(Function.TANH),
    "HARD_SWISH": _lut(Function.HARDSWISH),
    "GELU": _gelu,
    "EXP": _lut(Function.EXP),
    "LOG": _lut(Function.LOG),
    "SQRT": _lut(Function.SQRT),
    "RSQRT": _lut(Function.RSQRT),
    "ABS": _lut(Function.ABS),
    "LEAKY_RELU": _leaky_relu,
    "RELU": _clamp,
    "RELU6": _clamp,
    "RELU_N1_TO_1": _clamp,
    "RELU_0_TO_1": _clamp,
    "AVERAGE_POOL_2D": _pool(AvgPool2d),
    "MAX_POOL_2D": _pool(MaxPool2d),
    "MEAN": _mean,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _log_softmax,
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
    "SQUEEZE": shapes.reshape,
    "EXPAND_DIMS": shapes.reshape,
    "TRANSPOSE": shapes.transpose,
    "REVERSE_V2": shapes.reverse,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "BATCH_MATMUL": batch_matmul,
    "TRANSPOSE_CONV": transpose_conv,
    "RESIZE_NEAREST_NEIGHBOR": resize(ResizeNearest, tflite.ResizeNearestNeighborOptions),
    "RESIZE_BILINEAR": resize(ResizeBilinear, tflite.ResizeBilinearOptions),
    "PRELU": _prelu,
    "DIV": _div,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUM": reduction(ReduceSum),
    "REDUCE_MAX": reduction(ReduceMax),
    "REDUCE_MIN": reduction(ReduceMin),
    **compare_select.ROWS,
    **space_batch.ROWS,
    **recurrent.ROWS,
    **detections.ROWS,
    **lut_functions.ROWS,
    **integer_arithmetic.ROWS,
    **scatter.ROWS,
    "WHILE": while_loops.loop(ops_of),
}
ROWS |= {code: integer_arithmetic.by_type(ROWS[code], row) for code, row in integer_arithmetic.WHOLE.items()}
"""The reader of each operator, by its name in the format."""
