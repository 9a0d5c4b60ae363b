# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pillion import ops
from pillion.ir import numerics
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op, Quantization, operand_fields
from pillion.ir.types import (
    BYTES,
    LEAST_SCALE,
    DType,
    PerChannel,
    PerTensor,
    TensorType,
    Value,
    constant_value,
    integer_name,
)
from pillion.ops.layer import Layer
from pillion.ops.softmax import OUTPUT, Softmax, is_share_quant
from pillion.passes.overflow_checks import require_sums_fit_32_bits
from pillion.passes.uint8_io import APART


def convert_to_integer(graph: Graph) -> Graph:
    """Turns dequantize → op → quantize into the integer op; a clamp in between becomes the bounds of its result."""
    return _IntegerConversion(graph).run()


class _IntegerConversion:
    """One sweep in running order. `int8_of` maps a float value to the integers that it is dequantized from."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = UniqueNames(list(graph.values))
        self.int8_of: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}
        self.ops: list[Op] = []

    def run(self) -> Graph:
        for op in self.graph.ops:
            self.visit(op.substitute(self.same))
        return self.graph.with_ops(self.ops, self.same).without_dead_ops()

    def visit(self, op: Op) -> None:
        match op:
            case ops.Dequantize(x=x) if x.dtype in (*BYTES, DType.INT16) and isinstance(
                x.type.quant, PerTensor
            ):
                self.int8_of[op.y] = x
                self.ops.append(op)
            case ops.Quantize() if op.x in self.int8_of:
                self.same[op.y] = self.requantize_value(
                    self.int8_of[op.x], op.y.type.quant, op.source, op.y.dtype
                )
            case ops.Lut(function=ops.Function.CLAMP) if op.y in self.int8_of:
                pass  # already the bounds of its producer
            case _ if not self.to_integer(op):
                self.ops.append(op)

    def to_integer(self, op: Op) -> bool:
        """Emits the integer form of a float op; returns False if the op stays in float."""
        operands = self.integer_operands(op)
        if operands is None:
            return False
        if op.results[0].dtype is not DType.FLOAT32:
            self.ops.append(op.substitute(self.of_one_width(op, operands)))
            return True
        if op.quantization is Quantization.SHARED:
            self.emit_with_shared_range(op, operands)
            return True
        return self.emit_with_own_range(op, operands)

    def integer_operands(self, op: Op) -> dict[Value, Value] | None:
        """Maps each real operand to its integers; None if an operand has none or no operand is real. Whole
        numbers and booleans stay."""
        if isinstance(op, (ops.Quantize, ops.Dequantize)):
            return None
        integers: dict[Value, Value] = {}
        made_later = [getattr(op, name, None) for name in ("bias", *op.real_constants)]
        for value in op.operands:
            if any(value is later for later in made_later) or (
                value.dtype is not DType.FLOAT32 and not value.is_quantized
            ):
                continue
            is_integer = value.dtype in (DType.INT8, DType.INT16) and value.is_quantized
            known = value if is_integer else self.int8_of.get(value)
            if known is None:
                return None
            integers[value] = known
        return integers or None

    def of_one_width(self, op: Op, operands: dict[Value, Value]) -> dict[Value, Value]:
        """Widens the 8-bit operands of comparisons and matrix products whose other operands have 16 bits, which
        represent each of their numbers."""
        widths = {v.dtype for v in operands.values()}
        if not isinstance(op, (ops.BatchMatmul, ops.Compare)) or widths != {DType.INT8, DType.INT16}:
            return operands
        return {
            old: self.requantize_value(new, PerTensor(new.scale), op.source, DType.INT16)
            for old, new in operands.items()
        }

    def emit_with_shared_range(self, op: Op, operands: dict[Value, Value]) -> None:
        """Emits the op with the same parameters for operands and result: their common ones, those of the quantize
        that follows, or a range that saturates none."""
        float_result = op.results[0]
        quants = {v.type.quant: None for v in operands.values()}
        following = self.following_quantize_result(float_result)
        quant = next(iter(quants)) if len(quants) == 1 else following.quant if following else None
        if quant is None:
            quant = covering_quant(list(operands.values()))
        widths = (
            {v.dtype for v in operands.values()}
            if quant in quants or following is None
            else {following.dtype}
        )
        dtype = DType.INT16 if DType.INT16 in widths else next(iter(operands.values())).dtype
        same = {old: self.requantize_value(new, quant, op.source, dtype) for old, new in operands.items()}
        integer = self.emit(op, same, TensorType(float_result.shape, dtype, quant))
        self.int8_of[float_result] = integer
        self.ops.append(ops.Dequantize(x=integer, y=float_result, source=op.source))

    def following_quantize_result(self, value: Value) -> Value | None:
        """Returns the result of the quantize that reads a real tensor, if there is one."""
        return next((u.y for u in self.graph.users.get(value, []) if isinstance(u, ops.Quantize)), None)

    def emit_with_own_range(self, op: Op, operands: dict[Value, Value]) -> bool:
        """Emits the op with the result parameters of the quantize that follows, across a clamp if the op can take its
        bounds. Returns False if no quantize follows."""
        clamp = self.fusable_clamp(op)
        end = clamp.y if clamp else op.results[0]
        following = self.following_quantize_result(end)
        if following is None:
            return False
        quant = following.quant
        if isinstance(op, Softmax) and following.dtype is DType.INT8 and not is_share_quant(quant):
            quant = OUTPUT
        operands = self.of_one_width(op, operands)
        integer = self.emit(op, operands, TensorType(end.shape, following.dtype, quant), clamp)
        integer = self.requantize_value(integer, following.quant, op.source, following.dtype)
        for value in {end, op.results[0]}:
            self.int8_of[value] = integer
            self.ops.append(ops.Dequantize(x=integer, y=value, source=op.source))
        return True

    def fusable_clamp(self, op: Op) -> ops.Lut | None:
        user = self.graph.only_user(op.results[0])
        is_clamp = isinstance(user, ops.Lut) and user.function is ops.Function.CLAMP
        return (
            user
            if is_clamp
            and isinstance(user, ops.Lut)
            and {"low", "high"} <= set(op.attributes)
            and not isinstance(op, ops.Lut)
            else None
        )

    def emit(
        self, op: Op, operands: dict[Value, Value], type: TensorType, clamp: ops.Lut | None = None
    ) -> Value:
        y = Value(self.names.fresh(integer_name((clamp or op).results[0].name, type.dtype)), type)
        fields: dict[str, Any] = {"y": y}
        if isinstance(op, Layer):
            fields["bias"] = quantized_bias(op, operands[op.x], self.names)
        if isinstance(op, ops.Pad):
            fields["value"] = int(numerics.quantize_array(op.value, y.scale, y.zero_point, *y.dtype.bounds))
        if {"low", "high"} <= set(op.attributes) and (clamp or y.dtype is DType.INT16):
            fields["low"], fields["high"] = clamp_levels(clamp, y) if clamp else y.dtype.bounds
        new_op = dataclasses.replace(op.substitute(operands), **fields)
        if isinstance(op, ops.Lut) and op.function is ops.Function.CLAMP:
            low, high = clamp_levels(op, y)
            new_op = ops.Clamp(x=operands[op.x], y=y, low=low, high=high, source=op.source)
            if DType.INT16 in (new_op.x.dtype, y.dtype):
                rescaled = self.requantize_value(new_op.x, y.type.quant, op.source, y.dtype)
                new_op = new_op.substitute({new_op.x: rescaled})
        require_sums_fit_32_bits(new_op)
        self.ops.append(new_op)
        return y

    def requantize_value(self, value: Value, quant: object, source: str, dtype: DType = DType.INT8) -> Value:
        """Requantizes a value; returns it unchanged if it has these parameters."""
        if value.type.quant == quant and (dtype is not DType.INT16 or value.dtype is dtype):
            return value
        if value.dtype is DType.UINT8 and dtype is DType.INT16:
            byte = PerTensor(value.scale, value.zero_point - APART)
            value = self.requantize_value(value, byte, source)
        made_type = TensorType(value.shape, dtype, quant)  # type: ignore[arg-type]  # per tensor, as all activations
        y = Value(self.names.fresh(f"{value.name}_rescaled"), made_type)
        requantize = ops.Requantize(x=value, y=y, to=dtype, source=source)
        require_sums_fit_32_bits(requantize)
        self.ops.append(requantize)
        return y


def covering_quant(values: Sequence[Value]) -> PerTensor:
    """Returns int8 parameters that represent all values: one value's if they suffice, else those of the joint
    range."""
    ranges = [_real_range(v) for v in values]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    for value in sorted(values, key=lambda v: v.is_constant):
        least, most = _integer_real_range(value)
        if least <= low and high <= most:
            return value.quant
    if DType.INT16 in {v.dtype for v in values}:
        return PerTensor(max(-low, high) / DType.INT16.bounds[1])
    scale = (high - low) / numerics.INT8_STEPS
    return PerTensor(scale, int(np.clip(round(-128 - low / scale), -128, 127)))


def _integer_real_range(value: Value) -> tuple[float, float]:
    """Returns the smallest and the largest real number of an integer type."""
    bounds = DType.INT16.bounds if value.dtype is DType.INT16 else DType.INT8.bounds
    low, high = (value.scale * (level - value.zero_point) for level in bounds)
    return low, high


def _real_range(value: Value) -> tuple[float, float]:
    if not value.is_constant:
        return _integer_real_range(value)
    real = value.scale * (value.constant.astype(np.float64) - value.zero_point)
    return float(real.min(initial=0)), float(real.max(initial=0))


def clamp_levels(clamp: ops.Lut, y: Value) -> tuple[int, int]:
    """Returns the bounds of a clamp as integers of its result."""
    low, high = (
        int(numerics.quantize_array(bound, y.scale, y.zero_point, *y.dtype.bounds))
        for bound in (clamp.low, clamp.high)
    )
    return low, high


def quantized_bias(op: Layer, x: Value, names: UniqueNames) -> Value:
    """Quantizes the bias at the accumulator's scale."""
    if op.bias.dtype is DType.INT32:
        return op.bias
    scales = np.maximum(x.scale * op.weights.channel_scales, LEAST_SCALE)
    data = numerics.quantize_bias(op.bias.constant, x.scale, op.weights.channel_scales)
    quant = PerChannel(tuple(scales.tolist()), 0) if len(scales) == len(data) else PerTensor(float(scales[0]))
    return constant_value(names.fresh(f"{op.bias.name}_i32"), data, quant)


def float_ops(graph: Graph) -> list[tuple[Op, str]]:
    """Lists the ops that still compute in float, each with the reason."""
    inside = [inner for op in graph.ops if isinstance(op, ops.Scan) for inner in float_ops(op.body)]
    computing = (
        op for op in graph.ops if not isinstance(op, (ops.Quantize, ops.Dequantize, ops.Cast, ops.Detections))
    )
    left = [op for op in computing if any(r.dtype is DType.FLOAT32 for r in op.results)]
    return [
        *inside,
        *((op, _float_reason(graph, op)) for op in left if not _only_moves_detections(graph, op)),
    ]


def _only_moves_detections(graph: Graph, op: Op) -> bool:
    """Whether an op only moves the float results of a detection op."""
    producer: Op | None = op
    while isinstance(producer, (ops.Slice, ops.Reshape)):
        producer = graph.producers.get(producer.x)
    return isinstance(producer, ops.Detections)


def _float_reason(graph: Graph, op: Op) -> str:
    for name in operand_fields(op):
        operand = getattr(op, name)
        for value in operand if isinstance(operand, tuple) else (operand,) if operand is not None else ():
            if (
                value.dtype is DType.FLOAT32
                and not isinstance(graph.producers.get(value), ops.Dequantize)
                and name not in ("bias", *op.real_constants)
            ):
                return f"its operand `{value.name}` is not quantized"
    return "its result is not quantized"
