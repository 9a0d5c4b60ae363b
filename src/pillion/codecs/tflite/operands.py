# SPDX-License-Identifier: Apache-2.0
"""Checks of operands, and of the ops that readers return."""

from __future__ import annotations

from math import inf

import numpy as np

from pillion.codecs.tflite.exact import INT16_FORM, accumulator_quantization
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.size_limits import check_sizes
from pillion.ir.types import DType, PerChannel, PerTensor, Value, constant_value
from pillion.ops.conv import Convolution
from pillion.ops.elementwise import AddOrSub
from pillion.ops.squared_difference import SquaredDifference
from pillion.schemas.tflite import ElementType

INT8_OR_16 = (DType.INT8, DType.INT16)
"""The types of quantized arithmetic with 16-bit forms; int16 tensors have zero point 0 (`symmetric_16_bits`)."""


def require_int8(call: ReadOperator, operands: int = 1, types: tuple[DType, ...] = (DType.INT8,)) -> None:
    """Raises unless results and the first operands of an int8 operator are int8 with one scale; or all int16, if that
    is among its types."""
    values = () if call.is_float else (*call.inputs[:operands], *call.outputs)
    if DType.INT16 in types and {v and v.dtype for v in values} == {DType.INT16}:
        return
    for value in values:
        if value is None or value.dtype is not DType.INT8 or not isinstance(value.type.quant, PerTensor):
            raise call.refuse(
                "operators compute on int8 with one scale",
                repr(value),
                "convert with full integer quantization",
            )


def require_one_of(call: ReadOperator, value: Value, *types: DType) -> None:
    """Raises unless a tensor has one of these element types, or is float in a float file; int8 must have one
    scale."""
    types = (*types, DType.FLOAT32) if call.is_float else types
    has_scale = value.dtype is not DType.INT8 or isinstance(value.type.quant, PerTensor)
    if value.dtype not in types or not has_scale:
        names = " or ".join("int8 with one scale" if t is DType.INT8 else t.value for t in types)
        raise call.refuse(f"operands are {names}", repr(value), "convert with full integer quantization")


def with_axes(call: ReadOperator, value: Value, rank: int) -> Value:
    """Returns an operand of this rank; raises for another rank."""
    if value.type.rank != rank:
        raise call.refuse(f"`{value.name}` has {rank} axes", list(value.shape))
    return value


PACKED = ("CONV_2D", "FULLY_CONNECTED")
"""Operators whose weights of 4 bits stay so."""


def weights_of(call: ReadOperator, x: Value, rank: int) -> Value:
    """Returns the weights. 4-bit weights become bytes where kernels read only bytes; raises where LiteRT does not
    unpack them."""
    weights = with_axes(call, call.constant(1), rank)
    if weights.dtype is not DType.INT4:
        return weights
    if x.dtype is DType.INT16 and call.code not in PACKED:
        rule = (
            f"weights of 4 bits meet 16-bit operands in {' and '.join(PACKED)}: LiteRT does not unpack others"
        )
        raise call.refuse(rule, f"{weights!r} and {x!r}", "convert this layer with weights of 8 bits")
    if call.code in PACKED:
        return weights
    return constant_value(weights.name, weights.constant, weights.type.quant)


def bias_of(call: ReadOperator, number: int, x: Value, weights: Value, channels: int) -> Value:
    """Returns the bias with the accumulators' scale; zeros if it is omitted."""
    if 0 in weights.shape:  # an empty shape takes no bytes in the file, so its other axes may have any size
        raise call.refuse("weights have at least one element", repr(weights))
    if call.is_float:
        named = call.optional(number) is not None
        bias = call.constant(number) if named else constant_value("", np.zeros(channels, np.float32))
        if bias.shape != (channels,):
            raise call.refuse(f"there are {channels} biases", list(bias.shape))
        return bias
    weights_quant = weights.type.quant
    if not (
        isinstance(weights_quant, PerChannel)
        or (isinstance(weights_quant, PerTensor) and not weights_quant.zero_point)
    ):
        raise call.refuse(
            "weights are quantized with zero point 0",
            weights_quant,
            "convert with target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]: weights are around zero then",
        )
    quant = accumulator_quantization(x, weights)
    operand = call.optional(number)
    if operand is None:
        return constant_value(call.fresh(f"{call.result.name}/bias"), np.zeros(channels, np.int32), quant)
    _require_bias_scale(call, operand, x, weights)
    if x.dtype is DType.INT16:
        _require_bias_of_16_bits(call, operand)
    data, name = call.constant(number).constant, operand.name
    if operand.type.quant is not None:
        name = call.fresh(name)  # shared by operators with different scales
    bias = constant_value(name, data, quant)
    call.bind(operand, bias)
    return bias


def _require_bias_of_16_bits(call: ReadOperator, bias: Value) -> None:
    """Raises unless LiteRT reads the bias of a 16-bit layer as the type that it has, and rounds its sums once.

    An option says that the bias is int32; otherwise LiteRT reads it as int64. In convolutions the option also changes
    the rounding."""
    stored, option = call.element_type(bias), getattr(call.options, "quantized_bias_type", 0)
    named_int32 = option == ElementType.INT32
    if stored != (ElementType.INT32 if named_int32 else ElementType.INT64):
        raise call.refuse(
            "the bias of a 16-bit layer is int64, or int32 if the option quantized_bias_type says so: LiteRT reads other "
            "bytes than those of the bias otherwise",
            f"type {stored}, quantized_bias_type {option}",
            "convert again with a current converter",
        )
    if named_int32 and call.code != "FULLY_CONNECTED":
        raise call.refuse(
            "sums of 16-bit convolutions have 64 bits and are rounded once",
            f"`{bias.name}` is int32: LiteRT sums in 32 bits and rounds twice",
            "convert with int64 biases, which is the default",
        )


BIAS_TOLERANCE = 0.02
"""LiteRT's largest difference between the scales of bias and accumulator, relative to the result's scale."""


def _require_bias_scale(call: ReadOperator, bias: Value, x: Value, weights: Value) -> None:
    """Raises if the declared quantization of a bias contradicts the accumulators. LiteRT compares single
    scales of fully connected layers and of all uint8 layers; it ignores others."""
    quant = call.quantization(bias)
    scales, zeros = (quant.scale, quant.zero_point) if quant is not None else ([], [])
    if not all(0 <= scale < inf for scale in scales) or any(zeros):
        raise call.refuse("scales of a bias are finite, its zero point is 0", f"{scales[:4]}, {zeros[:4]}")
    if not isinstance(weights.type.quant, PerTensor) or not (
        call.is_unsigned or call.code == "FULLY_CONNECTED"
    ):
        return
    sums, declared = x.scale * weights.scale, scales[0] if len(scales) == 1 else 0.0
    if abs(sums - declared) > BIAS_TOLERANCE * call.result.scale:
        raise call.refuse(f"the scale of the bias is that of the sums, {sums:g}", f"{declared:g}")


def check_declared_shapes(call: ReadOperator, op: Op) -> Op:
    """Returns the op, with the sizes that the file leaves open; raises if the file declares another result."""
    op.check()
    inferred, declared = op.infer(), op.results[0]
    if declared in call.open and inferred.shape != declared.shape:
        declared = call.with_shape(declared, inferred.shape)
        op = op.substitute({op.results[0]: declared})
    if (inferred.shape, inferred.dtype) != (declared.shape, declared.dtype):
        raise call.refuse(f"the result is {inferred.dtype.value}{list(inferred.shape)}", repr(declared))
    check_sizes(op)
    if op.has_own_int16_form(Arithmetic.TFLITE):
        raise call.refuse(INT16_FORM, ", ".join(map(repr, (*op.operands, *op.results))))
    op.check_scales(Arithmetic.TFLITE)
    if isinstance(op, Convolution) and op.bias.dtype is DType.INT64:
        largest = op.largest_scaled_16_bit_sum
        if largest > numerics.INT32_MAX:
            raise call.refuse("scaled sums fit 32 bits: in LiteRT they wrap around", f"up to {largest:.3g}")
    if isinstance(op, (AddOrSub, SquaredDifference)) and op.rescale[2].shift > 0:
        raise call.refuse("LiteRT makes sums smaller: their multiplier is below 1", op.rescale[2].real)
    return op
