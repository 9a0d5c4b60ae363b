# SPDX-License-Identifier: Apache-2.0
"""Numbers of every type as tensors of one: what operands of one call have in common before it is spelled anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten, call, constant, constant_of, value_of

WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
Settle = Callable[[GraphModule, Node], Node | None]
"""What stands for a call from now on; None where that stays, or has gone already."""


def real_bytes(x: Tensor) -> Tensor:
    """Gives the numbers of an image of bytes as real ones."""
    return x.to(torch.float32)


def dtype_of(node: Any) -> torch.dtype:
    """Gives the element type of a call's result, or of a number in the code."""
    if isinstance(node, Node):
        held: torch.dtype = value_of(node).dtype
        return held
    return {bool: torch.bool, int: torch.int64}.get(type(node), torch.float32)


def as_type(module: GraphModule, before: Node, given: Any, dtype: torch.dtype) -> Node:
    """Gives a tensor or number as a tensor of float32, of whole numbers or of booleans."""
    held = constant_of(given)
    if held is None and not isinstance(given, Node):
        held = torch.tensor(given)
    if held is not None:
        same = isinstance(given, Node) and held.dtype == dtype
        return given if same else constant(module, before, held.to(dtype), f"{before.name}_operand")
    if dtype_of(given) == dtype or {dtype_of(given), dtype} <= WHOLE - {torch.uint8}:
        return given
    if dtype == torch.bool:
        zero = as_type(module, before, 0, dtype_of(given))
        return call(before, aten.ne.Tensor, given, zero)
    if dtype_of(given) == torch.bool and dtype == torch.float32:
        one, zero = (as_type(module, before, number, dtype) for number in (1.0, 0.0))
        return call(before, aten.where.self, given, one, zero)
    if dtype_of(given) == torch.uint8 and dtype == torch.float32:
        return call(before, real_bytes, given)
    return call(before, aten._to_copy.default, given, dtype=dtype)
