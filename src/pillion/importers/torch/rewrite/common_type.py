# SPDX-License-Identifier: Apache-2.0
"""Brings operands of different element types to a common type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten

WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
NARROW = frozenset({torch.int16, torch.int8})
"""Integer types that wrap before 32 bits; kept in 32 bits nevertheless."""


def widen_to_int32(x: Tensor) -> Tensor:
    """Widens an integer input to 32 bits."""
    return x.clone()


def int8_to_real(x: Tensor) -> Tensor:
    """Converts an int8 input to real numbers."""
    return x.to(torch.float32)


def widen_inputs(module: GraphModule) -> None:
    """Widens all int8 and int16 inputs, except those that only dequantize ops read."""
    for node in module.graph.find_nodes(op="placeholder"):
        if not all(map(fx.conversion_name, node.users)) and dtype_of(node) in NARROW:
            with module.graph.inserting_after(node):
                wide = module.graph.call_function(widen_to_int32, (node,))
            wide.meta["val"] = fx.fake_result(node)
            node.replace_all_uses_with(wide, delete_user_cb=lambda user, wide=wide: user is not wide)


def widen_constants(module: GraphModule) -> None:
    """Widens int8 and int16 constants read by torch operators."""
    for node in module.graph.find_nodes(op="get_attr"):
        tensor = fx.constant_of(node)
        users = (getattr(user.target, "namespace", "") for user in node.users)  # others read narrow integers
        if tensor is not None and tensor.dtype in NARROW and all(space == "aten" for space in users):
            wide = fx.constant(node, tensor.to(torch.int64), f"{node.name}_wide")
            wide.meta["val"] = fx.fake_result(node)
            fx.replace(node, wide)


def uint8_to_real(x: Tensor) -> Tensor:
    """Converts a uint8 image to real numbers."""
    return x.to(torch.float32)


def dtype_of(node: Any) -> torch.dtype:
    """Returns the element type of a node's result or of a Python number."""
    if isinstance(node, Node):
        dtype: torch.dtype = fx.fake_result(node).dtype
        return dtype
    return {bool: torch.bool, int: torch.int64}.get(type(node), torch.float32)


def as_type(before: Node, given: Any, dtype: torch.dtype) -> Node:
    """Returns a tensor or number as a tensor of `dtype`: float32, integers or booleans."""
    tensor = fx.constant_of(given)
    dtype = torch.int64 if dtype in NARROW else dtype
    if tensor is None and not isinstance(given, Node):
        tensor = torch.tensor(given)
    if tensor is not None:
        same = isinstance(given, Node) and tensor.dtype == dtype
        return given if same else fx.constant(before, tensor.to(dtype), f"{before.name}_operand")
    if dtype_of(given) == dtype or {dtype_of(given), dtype} <= WHOLE - {torch.uint8}:
        return given
    if dtype == torch.bool:
        zero = as_type(before, 0, dtype_of(given))
        return fx.call(before, aten.ne.Tensor, given, zero)
    if dtype_of(given) == torch.bool and dtype == torch.float32:
        one, zero = (as_type(before, number, dtype) for number in (1.0, 0.0))
        return fx.call(before, aten.where.self, given, one, zero)
    if dtype_of(given) == torch.uint8 and dtype == torch.float32:
        return fx.call(before, uint8_to_real, given)
    if is_widened_int8(given) and dtype == torch.float32:
        return fx.call(before, int8_to_real, given.args[0])
    return fx.call(before, aten._to_copy.default, given, dtype=dtype)


def is_widened_int8(given: Any) -> bool:
    """Whether this is a widen_to_int32 int8 input, which equals real numbers with scale 1."""
    return isinstance(given, Node) and given.target is widen_to_int32 and dtype_of(given) == torch.int8
