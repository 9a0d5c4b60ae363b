# SPDX-License-Identifier: Apache-2.0
"""Op → TFLite operators with bit-identical results. It knows ops and nothing of the file format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion import ops
from pillion.codecs.tflite import exact
from pillion.codecs.tflite.node import Node, Writing, int32_constant
from pillion.codecs.tflite.rows import MOST_AXES, WRITERS
from pillion.codecs.tflite.rows import ROWS as ROWS_BOTH_WAYS
from pillion.codecs.tflite.window_row import pad_node
from pillion.emitters.tflite import compare_select
from pillion.emitters.tflite.detections import detections
from pillion.emitters.tflite.recurrent import RecurrentLayer, half, layer_nodes
from pillion.emitters.tflite.segment_tables import SegmentTable, segment_table
from pillion.emitters.tflite.transpose_conv import transpose_conv
from pillion.emitters.tflite.uint8 import between_uint8, convolution_in_uint8
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.types import DType, Value, constant_value
from pillion.ops.conv import Convolution
from pillion.ops.lut_tflite import ACTIVATIONS, activation_levels, as_clamp, tflite_entries
from pillion.ops.softmax import OUTPUT_OF_8_BITS
from pillion.schemas import tflite

HALVES = (ops.LstmCell, ops.LstmOutput, ops.SvdfMemory, ops.SvdfOutput)
"""Halves of recurrent layers; files have complete layers."""
FROM_SCALES = (
    "compile the model itself, from PyTorch or .tflite; or write C or a .pte, whose kernels take multipliers"
)


def operators_of_op(op: Op) -> list[Node]:
    """Returns the operators of an op, in execution order."""
    row = ROWS.get(type(op))
    if isinstance(op, HALVES):
        return half(op)
    if row is None:
        raise exact.inexact_op_error(op, "the op has a TFLite operator", op.kind, "write C: -o folder/")
    if reason := why_multipliers_explicit(op):
        rule = "scales say all that an op computes: TFLite files have scales, programs of others multipliers"
        raise exact.inexact_op_error(op, rule, reason, FROM_SCALES)
    if op.has_own_int16_form(Arithmetic.TFLITE):
        raise exact.inexact_op_error(op, exact.INT16_FORM, ", ".join(map(repr, (*op.operands, *op.results))))
    if (
        isinstance(op, Convolution)
        and op.explicit
        and set(op.explicit) != set(op.from_scales(Arithmetic.TFLITE))
    ):
        return convolution_in_uint8(op, row(replace(op, explicit=())))
    return row(op)


def _linear_nodes(op: ops.Linear) -> list[Node]:
    exact.int8_or_16_only(op)
    exact.require_constants(op, op.weights, op.bias)
    _require_scaled_sums_fit(op)
    inputs = (op.x, exact.symmetric_weights(op, op.weights), exact.scaled_bias(op))
    options = tflite.FullyConnectedOptions(keep_num_dims=True)
    return exact.with_fused_activation(op, Node("FULLY_CONNECTED", inputs, (op.y,), options))


def _require_scaled_sums_fit(op: ops.Linear) -> None:
    """Raises if a scaled accumulator may exceed 32 bits: LiteRT converts it before it saturates, which is
    undefined in C."""
    largest = op.largest_scaled_sum
    if largest > numerics.INT32_MAX - 256:
        raise exact.inexact_op_error(op, "FULLY_CONNECTED: scaled sums fit 32 bits", f"up to {largest:.3g}")


def _lut_nodes(op: ops.Lut) -> list[Node]:
    if op.x.dtype is DType.INT16:
        return WRITERS[ops.Lut](op)
    exact.int8_only(op)
    tflite_entries(op)  # raises for tables that LiteRT refuses or leaves undefined
    match op.function:
        case ops.Function.CLAMP:
            return _clamp_nodes(as_clamp(op))
        case ops.Function.NEG:
            zero = constant_value(f"{op.name}/zero", np.full(1, op.x.zero_point, np.int8), op.x.quant)
            return [Node("SUB", (zero, op.x), (op.y,), tflite.SubOptions(pot_scale_int16=False))]
        case ops.Function.SQUARE:
            return [Node("MUL", (op.x, op.x), (op.y,), tflite.MulOptions())]
    return WRITERS[ops.Lut](op)


def _leaky_relu(x: Value, y: Value, alpha: float) -> Node:
    return Node("LEAKY_RELU", (x,), (y,), tflite.LeakyReluOptions(alpha=alpha))


def _clamp_nodes(op: ops.Clamp) -> list[Node]:
    """Returns one of the relu family, or a minimum and a maximum. A leaky relu with slope 1 requantizes as
    the relu family does, without bounds."""
    exact.int8_or_16_only(op)
    for name in RELU_FAMILY if op.y.dtype is DType.INT8 else RELU_FAMILY_16:
        if activation_levels(name, op.y.quant, op.y.dtype) == (op.low, op.high):
            return [Node(name, (op.x,), (op.y,))]
    if op.x.quant == op.y.quant:
        return exact.bounds_as_min_max(op, op.x, op.y)
    if (op.low, op.high) == op.y.dtype.bounds:
        return [_leaky_relu(op.x, op.y, 1.0)]
    rescaled = Value(f"{op.name}/rescaled", op.y.type)
    return [_leaky_relu(op.x, rescaled, 1.0), *exact.bounds_as_min_max(op, rescaled, op.y)]


RELU_FAMILY = tuple(name for name in ACTIVATIONS if name != "NONE")
RELU_FAMILY_16 = ("RELU", "RELU6")
"""The functions of the relu family that LiteRT has in 16 bits."""


def _avg_pool_up(op: ops.AvgPool2dUp) -> list[Node]:
    """Returns the operators of an average pool with ties rounded up, as in the uint8 kernel."""
    first, *bounds = WRITERS[ops.AvgPool2d](op)
    return [*between_uint8(op, first), *bounds]


def _resize_in_float(op: ops.ResizeBilinearFloat) -> list[Node]:
    (node,) = WRITERS[ops.ResizeBilinear](op)
    return between_uint8(op, node)


def _mean_nodes(op: ops.Mean) -> list[Node]:
    """Returns a mean; without axes, a requantization."""
    return WRITERS[ops.Mean](op) if op.axes else _quantize_nodes(op)


def _integer_arithmetic_nodes(op: ops.IntegerArithmetic) -> list[Node]:
    known = [row.fixed["calculation"] for row in ROWS_BOTH_WAYS if row.op is ops.IntegerArithmetic]
    if op.calculation not in known:
        rule = f"LiteRT computes {', '.join(calculation.value for calculation in known)} of whole numbers"
        raise exact.inexact_op_error(op, rule, op.calculation.value, "write C: -o folder/")
    return WRITERS[ops.IntegerArithmetic](op)


def _batch_matmul(op: ops.BatchMatmul) -> list[Node]:
    """Returns the operators of a matrix product, which has no fused activation."""
    exact.int8_or_16_only(op, *op.operands, op.y)
    is_bounded = (op.low, op.high) != op.y.dtype.bounds
    y = Value(f"{op.name}/unbounded", op.y.type) if is_bounded else op.y
    options = tflite.BatchMatMulOptions(adj_x=op.adj_x, adj_y=op.adj_y)
    product = Node("BATCH_MATMUL", (op.a, op.b), (y,), options)
    return [product, *(exact.bounds_as_min_max(op, y, op.y) if is_bounded else [])]


def _l2_normalize(op: ops.L2Normalize) -> list[Node]:
    """Returns the operator; with headroom on uint8, between two conversions."""
    exact.int8_only(op)
    if op.x.type.rank > MOST_AXES:
        rule = f"LiteRT takes vectors in tensors of at most {MOST_AXES} axes"
        raise exact.inexact_op_error(op, rule, repr(op.x), "join axes by a reshape")
    node = Node("L2_NORMALIZATION", (op.x,), (op.y,), tflite.L2NormOptions())
    return between_uint8(op, node) if op.headroom else [node]


def _slice_nodes(op: ops.Slice) -> list[Node]:
    begin = int32_constant(f"{op.name}/begin", op.begin)
    if set(op.step) <= {1}:
        size = int32_constant(f"{op.name}/size", op.y.shape)
        return [Node("SLICE", (op.x, begin, size), (op.y,), tflite.SliceOptions())]
    axes = zip(op.begin, op.step, op.y.shape, strict=True)
    end = int32_constant(f"{op.name}/end", [b + s * (d - 1) + 1 for b, s, d in axes])
    step = int32_constant(f"{op.name}/step", op.step)
    return [Node("STRIDED_SLICE", (op.x, begin, end, step), (op.y,), tflite.StridedSliceOptions())]


MAX_RANK_PAD = 5


def _pad_nodes(op: ops.Pad) -> list[Node]:
    if op.x.type.rank > MAX_RANK_PAD:
        raise exact.inexact_op_error(
            op, f"PAD takes at most {MAX_RANK_PAD} axes", repr(op.x), "join axes by a reshape"
        )
    return [pad_node(op.name, op.x, op.y, op.before, op.after, op.value)]


def _reshape_nodes(op: ops.Reshape) -> list[Node]:
    """Returns a RESHAPE; a SQUEEZE for a scalar result, whose shape has no data."""
    if not op.y.shape and op.x.shape:
        return [Node("SQUEEZE", (op.x,), (op.y,), tflite.SqueezeOptions())]
    shape = int32_constant(f"{op.name}/shape", op.y.shape)
    return [Node("RESHAPE", (op.x, shape), (op.y,), tflite.ReshapeOptions(new_shape=list(op.y.shape)))]


def _flip_nodes(op: ops.Flip) -> list[Node]:
    """Returns an operator per axis: LiteRT supports several only if they are adjacent."""
    between = [Value(f"{op.name}/{axis}", op.y.type) for axis in op.axes[1:]]
    steps = zip(op.axes, (op.x, *between), (*between, op.y), strict=True)
    return [Node("REVERSE_V2", (x, int32_constant(f"{op.name}/axis", [axis])), (y,)) for axis, x, y in steps]


def _quantize_nodes(op: ops.Quantize | ops.Requantize | ops.Mean) -> list[Node]:
    for value in (op.x, op.y):
        if value.dtype is DType.INT16 and value.type.quant != OUTPUT_OF_8_BITS:
            exact.int8_or_16_only(op, value)
    return [Node("QUANTIZE", (op.x,), (op.y,), tflite.QuantizeOptions())]


def _dequantize_nodes(op: ops.Dequantize) -> list[Node]:
    exact.int8_or_16_only(op, op.x)
    return [Node("DEQUANTIZE", (op.x,), (op.y,), tflite.DequantizeOptions())]


ROWS: dict[type[Op], Writing | None] = {
    **WRITERS,
    ops.Linear: _linear_nodes,
    ops.Lut: _lut_nodes,
    ops.Clamp: _clamp_nodes,
    ops.AvgPool2dUp: _avg_pool_up,
    ops.Mean: _mean_nodes,
    ops.L2Normalize: _l2_normalize,
    # Decomposed by `passes.compose_norms`.
    ops.Normalize: None,
    # Legalized to one scale by `passes.legalize_embedding_bags`.
    ops.EmbeddingBag: None,
    # Decomposed by `passes.compose_magnitudes`.
    ops.Magnitude: None,
    # Of 16-bit operands: refused by `passes.legalize_for_runtime`.
    ops.LogMel: None,
    ops.Stft: None,
    ops.Biquads: None,
    # Files have no such operator.
    ops.WindowStatistic: None,
    # Of files of TensorFlow Lite Micro: no other runtime has them.
    ops.SignalStage: None,
    # Files have it in float alone, with as many results as there are.
    ops.NonMaxSuppression: None,
    ops.RunLengths: None,
    ops.Concat: lambda op: [Node("CONCATENATION", op.xs, (op.y,), tflite.ConcatenationOptions(axis=op.axis))],
    ops.Slice: _slice_nodes,
    ops.Pad: _pad_nodes,
    ops.Reshape: _reshape_nodes,
    ops.Flip: _flip_nodes,
    ops.Quantize: _quantize_nodes,
    ops.Dequantize: _dequantize_nodes,
    ops.Requantize: _quantize_nodes,
    ops.TransposeConv2d: transpose_conv,
    ops.BatchMatmul: _batch_matmul,
    ops.Gather: compare_select.gather,
    ops.IntegerArithmetic: _integer_arithmetic_nodes,
    ops.Where: compare_select.where,
    ops.ArgMax: compare_select.arg_extremum,
    ops.ArgMin: compare_select.arg_extremum,
    ops.TopValues: compare_select.top_k,
    ops.TopPlaces: compare_select.top_k,
    ops.Cast: compare_select.cast,
    # Halves of an operator have no form of their own.
    **dict.fromkeys(HALVES),
    RecurrentLayer: layer_nodes,
    SegmentTable: segment_table,
    ops.Detections: detections,
    ops.ResizeBilinearFloat: _resize_in_float,
}
"""None is a deliberate refusal."""
