# SPDX-License-Identifier: Apache-2.0
"""Numbers of every type as tensors of one: what operands of one call have in common before it is spelled anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten, call, constant, constant_of, replace, value_of

WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
Settle = Callable[[GraphModule, Node], Node | None]
"""What stands for a call from now on; None where that stays, or has gone already."""


NARROW = frozenset({torch.int16, torch.int8})
"""What wraps before 32 bits do. They are kept in 32 bits all the same."""


def widened(x: Tensor) -> Tensor:
    """Gives an input of few bits in 32."""
    return x.clone()


def real_numbers(x: Tensor) -> Tensor:
    """Gives the numbers of an input of 8 bits as real ones."""
    return x.to(torch.float32)


def widen_inputs(module: GraphModule) -> None:
    """Lets what reads an input of 8 or 16 bits read it in 32."""
    for node in module.graph.find_nodes(op="placeholder"):
        if node.users and dtype_of(node) in NARROW:
            with module.graph.inserting_after(node):
                wide = module.graph.call_function(widened, (node,))
            wide.meta["val"] = value_of(node)
            node.replace_all_uses_with(wide, delete_user_cb=lambda user, wide=wide: user is not wide)


def widen_constants(module: GraphModule) -> None:
    """Gives constants of few bits that are read beside such inputs in 32, too."""
    for node in module.graph.find_nodes(op="get_attr"):
        held = constant_of(node)
        if held is not None and held.dtype in NARROW and all(_is_of_torch(user) for user in node.users):
            wide = constant(module, node, held.to(torch.int64), f"{node.name}_wide")
            wide.meta["val"] = value_of(node)
            replace(node, wide)


def _is_of_torch(node: Node) -> bool:
    """Whether a call is of an operator of torch itself: those of quantization read integers as they are."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"


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
    dtype = torch.int64 if dtype in NARROW else dtype
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
    if is_of_8_bits(given) and dtype == torch.float32:
        return call(before, real_numbers, given.args[0])
    return call(before, aten._to_copy.default, given, dtype=dtype)


def is_of_8_bits(given: Any) -> bool:
    """Whether this is an input of 8 bits with a sign, which are real numbers at once, in steps of 1."""
    return isinstance(given, Node) and given.target is widened and dtype_of(given) == torch.int8
