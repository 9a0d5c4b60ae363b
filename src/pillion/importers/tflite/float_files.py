# SPDX-License-Identifier: Apache-2.0
"""Detects files that compute in float. Such files are quantized through PyTorch
(`importers.tflite_float`)."""

from __future__ import annotations

from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

INTEGERS = (ElementType.INT8, ElementType.UINT8, ElementType.INT16)
"""Element types of quantized activations."""
NEITHER = ("QUANTIZE", "DEQUANTIZE", "CAST", "CUSTOM")
"""Operators whose results do not determine the arithmetic: conversions, and detection at the end of int8
models."""


def computes_in_float(model: tflite.Model) -> bool:
    """Whether a file's operators have float results and no quantized ones."""
    if not model.subgraphs:
        return False
    graph = model.subgraphs[0]
    names = [operator_name(model, one.opcode_index) for one in graph.operators]
    made = {
        number
        for name, one in zip(names, graph.operators, strict=True)
        if name not in NEITHER
        for number in one.outputs
        if 0 <= number < len(graph.tensors)
    }
    tensors = [graph.tensors[number] for number in made]
    is_quantized = any(
        t.type in INTEGERS and t.quantization is not None and t.quantization.scale for t in tensors
    )
    return not is_quantized and any(t.type == ElementType.FLOAT32 for t in tensors)


def is_hybrid(model: tflite.Model) -> bool:
    """Whether operators that compute in float have 8-bit weights (dynamic-range quantization)."""
    graph = model.subgraphs[0]
    handed = {
        number
        for one in graph.operators
        if operator_name(model, one.opcode_index) not in NEITHER
        for number in one.inputs
        if 0 <= number < len(graph.tensors)
    }
    return any(
        graph.tensors[number].type in INTEGERS and graph.tensors[number].quantization is not None
        for number in handed
    )


def operator_name(model: tflite.Model, index: int) -> str:
    """Returns the name of an operator code; empty if the format has none."""
    if index >= len(model.operator_codes):
        return ""
    code = model.operator_codes[index]
    number = max(code.builtin_code, code.deprecated_builtin_code)
    return tflite.OPERATORS[number] if 0 <= number < len(tflite.OPERATORS) else ""
