# SPDX-License-Identifier: Apache-2.0
"""What a program keeps of the model that it was quantized from: what its tensors are in float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.types import Array, Shape, Value

INTEGER_FORM = "_i8"
"""What the integer form of a tensor is called, behind the name that it was imported by."""


class FloatModel(Protocol):
    """The model as it was before quantization."""

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the model's inputs, as its author wrote them."""

    def __call__(self, inputs: Sequence[Array]) -> Mapping[str, Array]:
        """Computes the model in float: the tensors by the names that they were imported by, as they lie in a graph's memory."""


def imported_name(value: Value) -> str:
    """Gives the name that a tensor of a program was imported by."""
    return value.name.removesuffix(INTEGER_FORM)


def graph_inputs(graph: Graph, floats: Mapping[str, Array]) -> list[Array]:
    """Gives what a program takes for inputs that the float model has got: in its layout, and in integers where it takes those."""
    return [as_type(value, floats[imported_name(value)]) for value in graph.inputs]


def as_type(value: Value, array: Array) -> Array:
    """Gives real numbers as a tensor of a program has them: rounded to its integers, if it is quantized."""
    if not value.is_quantized or array.dtype == value.dtype.numpy:
        return array.astype(value.dtype.numpy)
    low, high = value.dtype.bounds
    steps = np.round(array.astype(np.float64) / value.scale) + value.zero_point
    return steps.clip(low, high).astype(value.dtype.numpy)
