# SPDX-License-Identifier: Apache-2.0
"""Detects files that compute in float, as a whole or in parts, which are quantized through PyTorch
(`importers.tflite_float`)."""

from __future__ import annotations

from collections.abc import Callable

from pillion.importers.tflite.model import has_scale, is_constant, operator_name, tensors_of
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

INTEGERS = (ElementType.INT8, ElementType.UINT8, ElementType.INT16)
"""Element types of quantized activations."""
NEITHER = ("QUANTIZE", "DEQUANTIZE", "CAST", "CUSTOM")
"""Operators whose results do not determine the arithmetic: conversions, and detection at the end of int8
models."""


FLOATS = (ElementType.FLOAT32, ElementType.FLOAT16)
STATEFUL = (
    "VAR_HANDLE",
    "READ_VARIABLE",
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "SVDF",
)
"""Operators that remember, which files of both arithmetics do not have."""


def computes_in_float(model: tflite.Model) -> bool:
    """Whether a file's operators have float results and no quantized ones."""
    is_quantized, is_float = number_formats(model)
    return is_float and not is_quantized


def is_partly_float(model: tflite.Model) -> bool:
    """Whether some operators of a file compute in float, and others on quantized tensors; none remembers."""
    names = {operator_name(model, code) for code in range(len(model.operator_codes))}
    return all(number_formats(model)) and names.isdisjoint(STATEFUL)


def number_formats(model: tflite.Model) -> tuple[bool, bool]:
    """Returns whether operators of a file have quantized results, and whether some have float results."""
    tensors = _computed_with(model, lambda operator: operator.outputs)
    is_quantized = any(t.type in INTEGERS and has_scale(t) for t in tensors)
    return is_quantized, any(t.type == ElementType.FLOAT32 for t in tensors)


def _computed_with(model: tflite.Model, side: Callable[[tflite.Operator], list[int]]) -> list[tflite.Tensor]:
    """Returns the operands or the results of the operators that determine the arithmetic."""
    if not model.subgraphs:
        return []
    graph = model.subgraphs[0]
    of = [o for o in graph.operators if not operator_name(model, o.opcode_index).startswith(NEITHER)]
    return tensors_of(graph, {number for operator in of for number in side(operator)})


def is_float_operator(model: tflite.Model, operator: tflite.Operator) -> bool:
    """Whether an operator of a file reads or makes real numbers, and does not convert activations."""
    graph = model.subgraphs[0]
    name = operator_name(model, operator.opcode_index)
    touched = tensors_of(graph, (*operator.inputs, *operator.outputs))
    if name == "DEQUANTIZE":  # of constants, as weights of 16 bits
        return all(is_constant(model, t) for t in touched[:1])
    return not name.startswith(("QUANTIZE", "CUSTOM")) and any(t.type in FLOATS for t in touched)


def is_hybrid(model: tflite.Model) -> bool:
    """Whether operators that compute in float have 8-bit weights (dynamic-range quantization)."""
    tensors = _computed_with(model, lambda operator: operator.inputs)
    return any(t.type in INTEGERS and t.quantization is not None for t in tensors)
