# SPDX-License-Identifier: Apache-2.0
"""Predicates for the rules of several NPUs, on the types, scales, ranks and constants of an op."""

from __future__ import annotations

import math

from pillion.devices.device import Predicate
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, Value
from pillion.ops import Clamp, Conv2d, DepthwiseConv2d, Linear, Lut, Slice, Softmax
from pillion.ops.lut_tflite import ACTIVATIONS, activation_levels, tflite_entries
from pillion.ops.softmax import OUTPUT
from pillion.ops.transpose_conv import TransposeConv2d


def at_most(limit: int, attribute: str) -> Predicate:
    """Returns a predicate: every number of an attribute is at most `limit`."""

    def predicate(op: Op) -> tuple[object, bool]:
        numbers = getattr(op, attribute)
        return "x".join(map(str, numbers)), max(numbers) <= limit

    return predicate


def equal(wanted: int, attribute: str) -> Predicate:
    """Returns a predicate: an attribute has exactly this value."""
    return lambda op: (getattr(op, attribute), getattr(op, attribute) == wanted)


def activations_int8(op: Op) -> tuple[object, bool]:
    """Whether every tensor except an int32 bias is int8."""
    values = (*(v for v in op.operands if v.dtype is not DType.INT32), *op.results)
    dtypes = sorted({v.dtype.value for v in values})
    return ", ".join(dtypes), dtypes == ["int8"]


def has_same_quantization(op: Op) -> tuple[object, bool]:
    """Whether all operands and results have the same scale and zero point."""
    quants = list(dict.fromkeys(v.type.quant for v in (*op.operands, *op.results)))
    return "the same" if len(quants) == 1 else f"{len(quants)} different", len(quants) == 1


def broadcasts_one_operand(op: Op) -> tuple[object, bool]:
    """Whether one operand has as many elements as the result, so that only the other one is broadcast."""
    result = op.results[0].type.elements
    counts = [v.type.elements for v in op.operands]
    return " and ".join(map(str, counts)) + f" for {result}", result in counts


def has_constant_weights(op: Op) -> tuple[object, bool]:
    """Whether weights and bias are constant."""
    computed = [v.name for v in weights_and_bias(op) if not v.is_constant]
    return f"computed: {', '.join(computed)}" if computed else "constant", not computed


def weights_and_bias(op: Op) -> tuple[Value, Value]:
    """Returns the weights and the bias of an op."""
    assert isinstance(op, (Conv2d, DepthwiseConv2d, TransposeConv2d, Linear))
    return op.weights, op.bias


def per_tensor_weights(op: Op) -> tuple[object, bool]:
    """Whether all weights have the same scale."""
    quant = weights_and_bias(op)[0].type.quant
    per_channel = isinstance(quant, PerChannel) and len(set(quant.scales)) > 1
    return "per channel" if per_channel else "per tensor", not per_channel


def has_unit_slice_steps(op: Op) -> tuple[object, bool]:
    """Whether a slice has the step 1 along every axis."""
    assert isinstance(op, Slice)
    return op.step, set(op.step) <= {1}


def quantized_level_of(value: Value, real: float) -> int:
    """Returns the unclipped integer that represents a real number in a tensor."""
    return round(real / value.scale) + value.zero_point


def has_representable_bounds(op: Op) -> tuple[object, bool]:
    """Whether the bounds of a clamp are representable: those of the relu family with any result scale, other
    bounds only if the scale stays (they become minimum and maximum)."""
    assert isinstance(op, Clamp)
    if op.x.type.quant == op.y.type.quant:
        return "the same scale", True
    family = (name for name in RELU_FAMILY if activation_levels(name, op.y.quant) == (op.low, op.high))
    function = next(family, None)
    return (function.lower(), True) if function else ("other bounds and another scale", False)


RELU_FAMILY = tuple(name for name in ACTIVATIONS if name != "NONE")


def has_fixed_output_quantization(op: Op) -> tuple[object, bool]:
    """Whether the result has the fixed scale and zero point of the NPU's function, if it has one."""
    assert isinstance(op, Lut)
    quantization = (op.y.scale, op.y.zero_point)
    return f"scale {quantization[0]:g}, zero point {quantization[1]}", op.function.fixed_output in (
        None,
        quantization,
    )


def has_softmax_scale(op: Op) -> tuple[object, bool]:
    """Whether the result of a softmax has the scale 1/256."""
    assert isinstance(op, Softmax)
    return f"scale 2^{round(math.log2(op.y.scale))}", op.y.quant == OUTPUT


def has_defined_table(op: Op) -> tuple[object, bool]:
    """Whether the function has a value for every int8 input."""
    assert isinstance(op, Lut)
    try:
        tflite_entries(op)
    except PillionError as error:
        return error.here, False
    return "defined", True


def rank_at_most(limit: int) -> Predicate:
    """Returns a predicate: the result has at most `limit` axes."""
    return lambda op: (op.results[0].type.rank, op.results[0].type.rank <= limit)


def symmetric_weights(op: Op) -> tuple[object, bool]:
    """Whether the weights' zero point is 0."""
    weights, _ = weights_and_bias(op)
    zero_point = 0 if isinstance(weights.type.quant, PerChannel) else weights.zero_point
    return zero_point, zero_point == 0
