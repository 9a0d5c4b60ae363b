# SPDX-License-Identifier: Apache-2.0
"""Conversions between the tensors of a program and of its float model."""

from __future__ import annotations

from collections.abc import Mapping

from pillion.data.sample import InputSpec
from pillion.ir.graph import Graph
from pillion.ir.types import Array, Value, real_name


def imported_name(value: Value) -> str:
    """Returns a tensor's import name."""
    return real_name(value.name)


def graph_inputs(graph: Graph, floats: Mapping[str, Array]) -> list[Array]:
    """Returns a program's inputs for the float model's: in its layout, and quantized if it takes integers."""
    return [as_type(value, floats[imported_name(value)]) for value in graph.inputs]


def as_type(value: Value, array: Array) -> Array:
    """Returns real numbers in a tensor's type, quantized if the tensor is."""
    return InputSpec.of(value).quantized(array).astype(value.dtype.numpy)
