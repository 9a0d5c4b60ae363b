# SPDX-License-Identifier: Apache-2.0
"""Checks a program's inputs: number, types and shapes of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pillion.emitters.c.manifest import ManifestBuffer
from pillion.errors import PillionError
from pillion.ir.graph import Graph, check_inputs
from pillion.ir.types import Array, DType, Value

InputTensor = Value | ManifestBuffer
"""The description of an input, in a graph or in a manifest."""


def check_arrays(wanted: Sequence[InputTensor], inputs: Sequence[Array]) -> None:
    """Raises if arrays do not fit a program's inputs."""
    if len(inputs) != len(wanted):
        names = ", ".join(w.name for w in wanted)
        raise PillionError(
            f"the model takes {len(wanted)} input{'s' * (len(wanted) != 1)}",
            rule=f"--input once for each of {names}, in this order",
            here=f"{len(inputs)} arrays",
            help="leave --input out to run on random data",
        )
    for want, array in zip(wanted, inputs, strict=True):
        if array.dtype != want.dtype.numpy or array.shape != want.shape:
            raise PillionError(
                f"input `{want.name}` does not fit",
                rule=f"{want.dtype.value}{list(want.shape)}",
                here=f"{array.dtype}{list(array.shape)}",
                help=_fit_help(want, array),
            )


def _fit_help(want: InputTensor, array: Array) -> str:
    if array.shape != want.shape:
        return f"the model was compiled for {list(want.shape)}: reshape the array, or compile the model for its size"
    return f"array.astype(numpy.{want.dtype.value})"


def as_arrays(inputs: Sequence[Any]) -> list[Array]:
    """Returns arrays or torch tensors as numpy arrays."""
    return [np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x, order="C") for x in inputs]


def fit_to_graph(graph: Graph, inputs: Sequence[Any]) -> list[Array]:
    """Returns arrays for a graph: int64 as int32 if the graph takes that and the values fit, Python numbers in the
    graph's type. All arguments of a model's forward may be passed, including constant ones."""
    if len(inputs) != len(graph.inputs) or any(isinstance(x, (tuple, list)) for x in inputs):
        tensors = _flatten_inputs(inputs)
        inputs = tensors if len(tensors) == len(graph.inputs) else inputs
    if len(inputs) != len(graph.inputs):
        return as_arrays(inputs)
    converted = [_number_as_array(v, item) for v, item in zip(graph.inputs, inputs, strict=True)]
    return [_narrow_dtype(v, array) for v, array in zip(graph.inputs, as_arrays(converted), strict=True)]


def _flatten_inputs(inputs: Sequence[Any]) -> list[Any]:
    """Returns arrays and tensors, including those in tuples and lists."""
    tensors: list[Any] = []
    for item in inputs:
        if isinstance(item, (tuple, list)):
            tensors += _flatten_inputs(item)
        elif isinstance(item, np.ndarray) or hasattr(item, "detach"):
            tensors.append(item)
    return tensors


def _number_as_array(want: InputTensor, number: Any) -> Any:
    """Returns a Python number as an array if its type can represent it."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return number
    is_held = {
        DType.FLOAT32: not abs(number) > float(np.finfo(np.float32).max),
        DType.INT32: isinstance(number, int) and -(2**31) <= number < 2**31,
    }
    return np.asarray(number, want.dtype.numpy) if is_held.get(want.dtype) else number


def _narrow_dtype(want: InputTensor, array: Array) -> Array:
    wide = want.dtype is DType.INT32 and array.dtype == np.int64
    narrow = array.astype(np.int32) if wide else array
    return narrow if np.array_equal(narrow, array) else array


def check_fit(graph: Graph, arrays: Sequence[Array]) -> None:
    """Raises if arrays are not the graph's inputs, with the same message for every executor."""
    if len(arrays) != len(graph.inputs):
        check_inputs(graph, arrays)
    check_arrays(graph.inputs, arrays)
