# SPDX-License-Identifier: Apache-2.0
"""Limits that the rules of several NPUs share, on the types, scales, ranks and constants of an op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pillion.devices.device import Found, Limit, limit
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, Value
from pillion.ops import Clamp, Function, Lut, Softmax
from pillion.ops.lut_tflite import ACTIVATIONS, activation_levels, tflite_entries
from pillion.ops.softmax import OUTPUT


def at_most(most: int, measure: Callable[[Any], int], wants: str = "") -> Limit:
    """Limits a number of an op."""
    return Limit(wants or f"at most {most}", lambda op: (measure(op), measure(op) <= most))


def sides_at_most(most: int, attribute: str, wants: str) -> Limit:
    """Limits every number of an attribute."""
    return Limit(
        wants, lambda op: ("x".join(map(str, getattr(op, attribute))), max(getattr(op, attribute)) <= most)
    )


def attribute_equals(wanted: int, attribute: str, wants: str) -> Limit:
    """Requires one value of an attribute."""
    return Limit(wants, lambda op: (getattr(op, attribute), getattr(op, attribute) == wanted))


def require_zeros(attribute: str, wants: str) -> Limit:
    """Requires that all numbers of an attribute are 0."""
    return Limit(wants, lambda op: (getattr(op, attribute), not any(getattr(op, attribute))))


def function_among(functions: tuple[Function, ...]) -> Limit:
    """Requires that the function of a lookup table is one of these."""
    listed = ", ".join(f.value for f in functions)
    return Limit(f"one of {listed}", lambda op: (op.function.value, op.function in functions))


def softmax_rows(op: Softmax) -> int:
    """Returns the number of vectors of a softmax."""
    return math.prod(op.y.shape[:-1])


@limit("int8")
def int8_activations(op: Op) -> Found:
    """Every tensor except an int32 bias is int8."""
    values = (*(v for v in op.operands if v.dtype is not DType.INT32), *op.results)
    dtypes = sorted({v.dtype.value for v in values})
    return ", ".join(dtypes), dtypes == ["int8"]


@limit("int8, or int16 with zero point 0")
def int8_or_int16_activations(op: Op) -> Found:
    """All tensors but weights and biases have the same width."""
    weights = getattr(op, "weights", None)
    values = (*(v for v in op.operands if v.dtype is not DType.INT32 and v is not weights), *op.results)
    dtypes = sorted({v.dtype.value for v in values})
    is_int8 = weights is None or weights.dtype is DType.INT8
    is_symmetric = all(v.zero_point == 0 for v in values if v.dtype is DType.INT16)
    shown = sorted({*dtypes, *(() if weights is None else (weights.dtype.value,))})
    return ", ".join(shown), is_int8 and is_symmetric and dtypes in (["int8"], ["int16"])


@limit("the same scale and zero point for operands and result")
def same_quantization(op: Op) -> Found:
    """No tensor has a scale or zero point of its own."""
    quants = {v.type.quant for v in (*op.operands, *op.results)}
    return "the same" if len(quants) == 1 else f"{len(quants)} different", len(quants) == 1


@limit("constant weights and bias")
def constant_weights(op: Any) -> Found:
    """Weights and bias are known when the model is compiled."""
    computed = [v.name for v in (op.weights, op.bias) if not v.is_constant]
    return f"computed: {', '.join(computed)}" if computed else "constant", not computed


@limit("one scale for all weights")
def per_tensor_weights(op: Any) -> Found:
    """No channel of the weights has a scale of its own."""
    quant = op.weights.type.quant
    per_channel = isinstance(quant, PerChannel) and len(set(quant.scales)) > 1
    return "per channel" if per_channel else "per tensor", not per_channel


@limit("weights with zero point 0")
def require_symmetric_weights(op: Any) -> Found:
    """Weights are quantized symmetrically."""
    zero_point = 0 if isinstance(op.weights.type.quant, PerChannel) else op.weights.zero_point
    return zero_point, zero_point == 0


def quantized_level_of(value: Value, real: float) -> int:
    """Returns the unclipped integer that represents a real number in a tensor."""
    return round(real / value.scale) + value.zero_point


RELU_FAMILY = tuple(name for name in ACTIVATIONS if name != "NONE")


def relu_like(op: Clamp) -> str | None:
    """Returns the function of the relu family with a clamp's bounds; None for other bounds."""
    family = (name for name in RELU_FAMILY if activation_levels(name, op.y.quant) == (op.low, op.high))
    function = next(family, None)
    return function.lower() if function else None


@limit("the bounds of relu, relu6, relu_n1_to_1 or relu_0_to_1, or an unchanged scale")
def representable_bounds(op: Clamp) -> Found:
    """The bounds of a clamp are those of the relu family with any result scale; other bounds become minimum and
    maximum, which need the same scale."""
    if op.x.type.quant == op.y.type.quant:
        return "the same scale", True
    function = relu_like(op)
    return (function, True) if function else ("other bounds and another scale", False)


@limit("sigmoid: scale 1/256, zero point -128; tanh: scale 1/128, zero point 0")
def fixed_output_quantization(op: Lut) -> Found:
    """The result has the fixed scale and zero point of the NPU's function, if it has one."""
    found = (op.y.scale, op.y.zero_point)
    return f"scale {found[0]:g}, zero point {found[1]}", op.function.fixed_output in (None, found)


@limit("scale 1/256")
def softmax_scale(op: Softmax) -> Found:
    """The result of a softmax has the scale that LiteRT fixes."""
    return f"scale 2^{round(math.log2(op.y.scale))}", op.y.quant == OUTPUT


@limit("values within 32 bits")
def require_total_function(op: Lut) -> Found:
    """The function has a value for every int8 input."""
    try:
        tflite_entries(op)
    except PillionError as error:
        return error.here, False
    return "defined", True
