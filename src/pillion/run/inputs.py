# SPDX-License-Identifier: Apache-2.0
"""What goes into a program: arrays of the right number, types and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph, check_inputs
from pillion.ir.types import Array, DType, Shape


class Tensor(Protocol):
    """The description of an input: a graph's value, or a buffer of a manifest."""

    @property
    def name(self) -> str:
        """The name under which the input is asked for."""

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""


def check_arrays(wanted: Sequence[Tensor], inputs: Sequence[Array]) -> None:
    """Raises where arrays do not fit a program's inputs."""
    if len(inputs) != len(wanted):
        names = ", ".join(w.name for w in wanted)
        raise PillionError(
            f"the model takes {len(wanted)} inputs",
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
                help=_way_to_fit(want, array),
            )


def _way_to_fit(want: Tensor, array: Array) -> str:
    if array.shape != want.shape:
        return f"the model was compiled for {list(want.shape)}: reshape the array, or compile the model for its size"
    return f"array.astype(numpy.{want.dtype.value})"


def as_arrays(inputs: Sequence[Any]) -> list[Array]:
    """Gives numpy arrays for arrays or torch tensors."""
    return [np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x, order="C") for x in inputs]


def fitted(graph: Graph, inputs: Sequence[Any]) -> list[Array]:
    """Gives arrays for a graph: whole numbers of 64 bits as those of 32 that they are, where the graph takes these; numbers of Python
    in the type that the graph takes. Where a model's forward has other arguments too, which the program has inside, all may be given."""
    if len(inputs) != len(graph.inputs) or any(isinstance(x, (tuple, list)) for x in inputs):
        tensors = _tensors(inputs)
        inputs = tensors if len(tensors) == len(graph.inputs) else inputs
    if len(inputs) != len(graph.inputs):
        return as_arrays(inputs)
    given = [_of_type(v, one) for v, one in zip(graph.inputs, inputs, strict=True)]
    return [_narrowed(v, array) for v, array in zip(graph.inputs, as_arrays(given), strict=True)]


def _tensors(given: Sequence[Any]) -> list[Any]:
    """Arrays and tensors, also those in tuples and lists."""
    found: list[Any] = []
    for one in given:
        if isinstance(one, (tuple, list)):
            found += _tensors(one)
        elif isinstance(one, np.ndarray) or hasattr(one, "detach"):
            found.append(one)
    return found


def _of_type(want: Tensor, given: Any) -> Any:
    """A number of Python as an array, if that type holds it."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return given
    is_held = {
        DType.FLOAT32: not abs(given) > float(np.finfo(np.float32).max),
        DType.INT32: isinstance(given, int) and -(2**31) <= given < 2**31,
    }
    return np.asarray(given, want.dtype.numpy) if is_held.get(want.dtype) else given


def _narrowed(want: Tensor, array: Array) -> Array:
    wide = want.dtype is DType.INT32 and array.dtype == np.int64
    narrow = array.astype(np.int32) if wide else array
    return narrow if np.array_equal(narrow, array) else array


def check_fit(graph: Graph, arrays: Sequence[Array]) -> None:
    """Raises where arrays are not the graph's inputs, with the same words whatever is to run it."""
    if len(arrays) != len(graph.inputs):
        check_inputs(graph, arrays)
    check_arrays(graph.inputs, arrays)
