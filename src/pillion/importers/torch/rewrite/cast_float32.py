# SPDX-License-Identifier: Apache-2.0
"""Computes 16 and 64-bit floats in float32; int8 rounds more coarsely than either."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.rewrite.inline_subgraphs import reinfer_types

OTHER_REALS = (torch.float16, torch.bfloat16, torch.float64)
PRODUCTS = fx.torch_operators("addmm bmm conv1d conv2d conv3d linear matmul mm")
"""Operators that require operands of one type."""


def cast_to_float32(module: GraphModule) -> None:
    """Casts all other floating-point computations to float32."""
    if any(map(_is_other_float, module.graph.nodes)):
        for node in fx.calls(module.graph, PRODUCTS):
            _require_one_type(node)
        for node in module.graph.find_nodes(op="get_attr"):
            tensor = fx.constant_of(node)
            if tensor is not None and tensor.dtype in OTHER_REALS:
                fx.replace(node, fx.constant(node, tensor.to(torch.float32), f"{node.name}_single"))
        for node in fx.calls(module.graph):
            node.args = tuple(map(_as_float32_argument, node.args))
            node.kwargs = {name: _as_float32_argument(value) for name, value in node.kwargs.items()}
        reinfer_types(module)
    for node in fx.calls(module.graph):
        _drop_type(node)


def _is_other_float(node: Node) -> bool:
    value = fx.fake_result(node)
    return node.op != "placeholder" and isinstance(value, Tensor) and value.dtype in OTHER_REALS


def _require_one_type(node: Node) -> None:
    types = {fx.fake_result(operand).dtype for operand in node.all_input_nodes}
    if len(types) > 1:
        raise PillionError(
            "a layer has other real numbers than what it reads",
            rule="operands of a product have the same dtype, as in PyTorch",
            here=f"{fx.operator_name(node)} of {' and '.join(sorted(map(str, types)))}  ({fx.source_line(node)})",
            help="module.float() before compiling",
        )


def _as_float32_argument(argument: Any) -> Any:
    return torch.float32 if argument in OTHER_REALS else argument


def _drop_type(node: Node) -> None:
    """Removes an optional `dtype` argument that equals the operand's type."""
    schema, source = getattr(node.target, "_schema", None), node.args[0] if node.args else None
    names = [a.name for a in schema.arguments if a.has_default_value()] if schema else []
    if "dtype" in names and fx.is_tensor(source) and fx.is_tensor(node):
        node.kwargs = {name: value for name, value in node.kwargs.items() if name != "dtype"}
        node.args = tuple(argument for argument in node.args if argument is not torch.float32)
