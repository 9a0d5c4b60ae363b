# SPDX-License-Identifier: Apache-2.0
"""Maps the types of a model's inputs to a program's and back: an int64 input of the model is int32 in the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.fx import Graph, Node

from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import fake_result
from pillion.ir.types import DType

INPUT_TYPES = {
    torch.float32: DType.FLOAT32,
    torch.int64: DType.INT32,
    torch.int32: DType.INT32,
    torch.int16: DType.INT16,
    torch.int8: DType.INT8,
    torch.uint8: DType.UINT8,
    torch.bool: DType.BOOL,
}
"""Program type of each input type. Integers have at most 32 bits."""


def input_dtype(node: Node) -> DType:
    """Returns the program's element type of an input node."""
    return dtype_of_input(node.name, fake_result(node).dtype)


def dtype_of_input(name: str, dtype: torch.dtype) -> DType:
    """Returns the program's element type of an input. Raises if the type is not supported."""
    if dtype not in INPUT_TYPES:
        short = str(dtype).removeprefix("torch.")
        names = ", ".join(str(known).removeprefix("torch.") for known in INPUT_TYPES)
        raise PillionError(
            f"input `{name}` has type {short}",
            rule=f"the model's inputs are of type {names}",
            here=f"{name}: {short}",
            help="cast the input outside the model",
        )
    return INPUT_TYPES[dtype]


def cast_to_model(graph: Graph, inputs: Iterable[Tensor]) -> list[Tensor]:
    """Casts inputs of a program that are whole numbers to the integer types of the model's inputs."""
    values = (fake_result(node) for node in graph.find_nodes(op="placeholder"))
    return like_examples(inputs, [v for v in values if isinstance(v, Tensor)])


def like_examples(inputs: Iterable[Tensor], examples: Sequence[Tensor]) -> list[Tensor]:
    """Casts whole numbers to the examples' types of integers."""
    return [_cast_exactly(x, example.dtype) for x, example in zip(inputs, examples, strict=True)]


def _cast_exactly(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Casts whole numbers to a type of integers if no value changes."""
    if dtype.is_floating_point or torch.bool in (x.dtype, dtype):
        return x
    cast = x.to(dtype)
    return cast if bool((cast == x).all()) else x
