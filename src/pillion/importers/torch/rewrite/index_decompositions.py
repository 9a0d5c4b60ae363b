# SPDX-License-Identifier: Apache-2.0
"""Decomposes writes by index, sliding windows and triangles into simpler calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import argument, aten, evaluate, value_of


def copy_into(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Computes `x.copy_(source)` with broadcasting."""
    source = source if source.dtype == x.dtype else source.to(x.dtype)
    return source if source.shape == x.shape else source.expand(x.shape)


def broadcast_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Broadcasts the values of an `index_put`."""
    values = values.expand(aten.index.Tensor(x, indices).shape)
    result: Tensor = aten.index_put.default(x, indices, values, accumulate)
    return result


def broadcasts_put(node: Node) -> bool:
    """Whether an `index_put` by numbers broadcasts its values."""
    x, indices, values = (argument(node, i) for i in range(3))
    numbers = [None if index is None else value_of(index) for index in indices]
    if any(n is not None and n.dtype in (torch.bool, torch.uint8) for n in numbers):
        return False
    return bool(evaluate(node.graph, aten.index.Tensor, (x, indices), {}).shape != value_of(values).shape)


def windows(
    x: Tensor,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """Returns the pixels of each window as a column: one strided slice per position in the window."""
    lead = x.shape[:-2]
    x = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    counts = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, d, s in zip(x.shape[-2:], kernel, dilation, stride, strict=True)
    ]
    places = [(i * dilation[0], j * dilation[1]) for i in range(kernel[0]) for j in range(kernel[1])]
    cut = [
        x[
            ...,
            i : i + (counts[0] - 1) * stride[0] + 1 : stride[0],
            j : j + (counts[1] - 1) * stride[1] + 1 : stride[1],
        ]
        for i, j in places
    ]
    flat = [part.reshape(*lead, 1, counts[0] * counts[1]) for part in cut]
    return torch.cat(flat, -2).reshape(*lead[:-1], -1, counts[0] * counts[1])


INDEX_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.copy.default: copy_into,
    aten.fill.Scalar: lambda x, value: torch.full(x.shape, value, dtype=x.dtype),
    aten.fill.Tensor: copy_into,
    aten.im2col.default: windows,
    aten.index_put.default: broadcast_put,
    aten.zero.default: lambda x: torch.zeros(x.shape, dtype=x.dtype),
}
INDEX_CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    aten.index_put.default: broadcasts_put,
}
