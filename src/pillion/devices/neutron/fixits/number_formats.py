# SPDX-License-Identifier: Apache-2.0
"""Fix-its for number formats, scales, bounds and functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from pillion.devices.neutron import limits as limits
from pillion.devices.retyped import Fixit, with_quant
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value
from pillion.ops import BatchMatmul, Clamp, Function, Linear, Lut
from pillion.ops.layer import Layer
from pillion.ops.softmax import OUTPUT, Softmax


def largest_channel_scale(weights: Value) -> PerTensor:
    """Returns the largest channel scale of the weights as the scale of all channels."""
    return PerTensor(float(weights.channel_scales.max()))


def suggest_per_tensor_weights(op: Linear) -> Iterator[Fixit]:
    """Suggests one scale for all weights of a linear layer."""
    if isinstance(op.weights.type.quant, PerChannel):
        weights = with_quant(op.weights, largest_channel_scale(op.weights))
        yield "weights with one scale (quantize for this target)", dataclasses.replace(op, weights=weights)


def suggest_symmetric_weights(op: Layer) -> Iterator[Fixit]:
    """Suggests the zero point 0 for weights."""
    weights = with_quant(op.weights, largest_channel_scale(op.weights))
    yield "weights with zero point 0 (quantize them symmetrically)", op.substitute({op.weights: weights})


def suggest_symmetric_operands(op: BatchMatmul) -> Iterator[Fixit]:
    """Suggests the zero point 0 for both operands of a matrix product."""
    changed = {v: with_quant(v, PerTensor(v.scale)) for v in (op.a, op.b)}
    yield "operands with zero point 0 (quantize for this target)", op.substitute(changed)


def suggest_constant_weights(op: Layer) -> Iterator[Fixit]:
    """Suggests constant weights and bias."""
    values = [v for v in (op.weights, op.bias) if not v.is_constant]
    constants = {
        v: dataclasses.replace(v, data=np.broadcast_to(v.dtype.numpy.type(0), v.shape)) for v in values
    }
    yield f"constant {' and '.join(v.name for v in values)}", op.substitute(constants)


def suggest_same_quantization(op: Op) -> Iterator[Fixit]:
    """Suggests the result's scale and zero point for the operands."""
    quant = op.results[0].type.quant
    if quant is not None:
        same = {v: with_quant(v, quant) for v in op.operands}
        yield (
            "one scale and zero point for operands and result (the quantizer's choice)",
            op.substitute(same),
        )


def suggest_bound_inside_range(op: Clamp) -> Iterator[Fixit]:
    """Suggests a shifted operand range that contains a bound."""
    for zero_point in (op.x.zero_point + 1, op.x.zero_point - 1):
        if not -128 < zero_point < 127:
            continue
        quant = PerTensor(op.x.scale, zero_point)
        changed = {op.x: with_quant(op.x, quant)}
        words = f"an operand with values beyond the bound: its zero point {op.x.zero_point} → {zero_point}"
        yield words, op.substitute(changed)
        moved = max(-128, min(127, op.low + zero_point - op.x.zero_point))
        same = {op.x: with_quant(op.x, quant), op.y: with_quant(op.y, quant)}
        yield words, dataclasses.replace(op.substitute(same), low=moved)  # type: ignore[call-arg]  # ops with bounds


def suggest_unchanged_scale(op: Clamp) -> Iterator[Fixit]:
    """Suggests the operand's scale and zero point for the result of a clamp."""
    if isinstance(op.x.type.quant, PerTensor):
        quant = op.x.quant
        levels = [
            (b - op.y.zero_point) * op.y.scale / quant.scale + quant.zero_point for b in (op.low, op.high)
        ]
        low, high = (max(-128, min(127, round(level))) for level in levels)
        yield (
            "the operand's scale and zero point for the result",
            dataclasses.replace(op, y=with_quant(op.y, quant), low=low, high=high),
        )


NEAREST = {
    Function.SILU: Function.HARDSWISH,
    Function.GELU: Function.HARDSWISH,
    Function.GELU_TANH: Function.HARDSWISH,
    Function.ELU: Function.LEAKY_RELU,
}
"""Unsupported functions → similar functions that the NPU supports, for changing the model."""


def suggest_similar_function(op: Lut) -> Iterator[Fixit]:
    """Suggests the most similar function that the NPU supports."""
    nearest = NEAREST.get(op.function)
    if nearest:
        changed = dataclasses.replace(op, function=nearest)
        if nearest.fixed_output:
            changed = dataclasses.replace(changed, y=with_quant(op.y, PerTensor(*nearest.fixed_output)))
        yield f"{op.function.value} → {nearest.value} in the model (and train again)", changed


def suggest_fixed_output_scale(op: Lut | Softmax) -> Iterator[Fixit]:
    """Suggests the fixed scale and zero point of the NPU's function."""
    fixed = op.function.fixed_output if isinstance(op, Lut) else (OUTPUT.scale, OUTPUT.zero_point)
    if fixed:
        scale, zero_point = fixed
        y = with_quant(op.y, PerTensor(scale, zero_point))
        yield (
            f"a result of scale {scale:g}, zero point {zero_point} (the quantizer's choice)",
            dataclasses.replace(op, y=y),
        )


def suggest_coarser_result_scale(op: Op) -> Iterator[Fixit]:
    """Suggests a larger result scale, by powers of two."""
    y = op.results[0]
    for power in range(1, 64):
        quant = PerTensor(y.scale * 2.0**power, y.zero_point)
        words = f"a result of scale {y.scale:g} → {quant.scale:g} (calibrate with representative data)"
        yield words, op.substitute({y: with_quant(y, quant)})


def suggest_int8(op: Op) -> Iterator[Fixit]:
    """Suggests int8 operands and results."""
    wide = [v for v in (*op.operands, *op.results) if v.dtype not in (DType.INT8, DType.INT32)]
    changed = {v: _with_int8_type(v) for v in wide}
    yield "int8 (quantize the model)", op.substitute(changed)


def _with_int8_type(value: Value) -> Value:
    quant = (
        value.type.quant
        if isinstance(value.type.quant, PerTensor) and -128 <= value.zero_point < 128
        else PerTensor(0.1)
    )
    data = None if value.data is None else np.broadcast_to(np.int8(0), value.shape)
    return Value(value.name, TensorType(value.shape, DType.INT8, quant), data)
