# SPDX-License-Identifier: Apache-2.0
"""What becomes of the types of a model's inputs, and the way back: a program is given int32 where its model takes int64."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.fx import Graph, Node

from pillion.errors import PillionError
from pillion.importers.torch.nodes import value_of
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
"""What becomes of the types of inputs. Whole numbers have 32 bits at most."""


def input_dtype(node: Node) -> DType:
    """Gives the element type of an input of the model."""
    return dtype_of_input(node.name, value_of(node).dtype)


def dtype_of_input(name: str, dtype: torch.dtype) -> DType:
    """Gives the element type that an input has in a program."""
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


def as_in_model(graph: Graph, inputs: Iterable[Tensor]) -> list[Tensor]:
    """Gives inputs of a program in the types that its model takes: whole numbers as those of 64 bits that it was written for."""
    values = (value_of(node) for node in graph.find_nodes(op="placeholder"))
    return like_examples(inputs, [v for v in values if isinstance(v, Tensor)])


def like_examples(inputs: Iterable[Tensor], examples: Sequence[Tensor]) -> list[Tensor]:
    """Gives whole numbers in the types of examples."""
    pairs = zip(inputs, examples, strict=True)
    return [_whole(x, example.dtype) if _are_whole(x, example) else x for x, example in pairs]


def _are_whole(*tensors: Tensor) -> bool:
    return not any(t.is_floating_point() or t.dtype == torch.bool for t in tensors)


def _whole(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The same numbers in another type, if it has them all."""
    made = x.to(dtype)
    return made if bool((made == x).all()) else x
