# SPDX-License-Identifier: Apache-2.0
"""Real numbers of 16 and 64 bits become those of 32: they are rounded to 8 bits afterwards, and a model that counts on more is beyond int8."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import PillionError
from pillion.importers.torch.nodes import (
    aten,
    calls,
    constant,
    constant_of,
    operator_name,
    replace,
    source_line,
    value_of,
)
from pillion.importers.torch.rewrite.scopes import evaluate_again

OTHER_REALS = (torch.float16, torch.bfloat16, torch.float64)
COMPUTED = frozenset(
    {
        aten.cumsum.default,
        aten.log_softmax.int,
        aten.mean.default,
        aten.mean.dim,
        aten.nansum.default,
        aten.prod.default,
        aten.prod.dim_int,
        aten.softmax.int,
        aten.sum.default,
        aten.sum.dim_IntList,
    }
)
"""What may be told the type in which to compute."""


PRODUCTS = frozenset(
    {
        aten.addmm.default,
        aten.bmm.default,
        aten.conv1d.default,
        aten.conv2d.default,
        aten.conv3d.default,
        aten.linear.default,
        aten.matmul.default,
        aten.mm.default,
    }
)
"""What torch computes of operands of one type alone."""


def use_single_precision(module: GraphModule) -> None:
    """Computes in float32 what a model computes in other real numbers."""
    if any(map(_is_other, module.graph.nodes)):
        for node in calls(module.graph, PRODUCTS):
            _want_one_type(node)
        for node in module.graph.find_nodes(op="get_attr"):
            held = constant_of(node)
            if held is not None and held.dtype in OTHER_REALS:
                replace(node, constant(module, node, held.to(torch.float32), f"{node.name}_single"))
        for node in calls(module.graph):
            node.args = tuple(map(_single, node.args))
            node.kwargs = {name: _single(value) for name, value in node.kwargs.items()}
        evaluate_again(module)
    for node in calls(module.graph, COMPUTED):
        _drop_type(node)


def _is_other(node: Node) -> bool:
    value = value_of(node)
    return node.op != "placeholder" and isinstance(value, Tensor) and value.dtype in OTHER_REALS


def _want_one_type(node: Node) -> None:
    types = {value_of(operand).dtype for operand in node.all_input_nodes}
    if len(types) > 1:
        raise PillionError(
            "a layer has other real numbers than what it reads",
            rule="operands of a product have the same dtype, as in PyTorch",
            here=f"{operator_name(node)} of {' and '.join(sorted(map(str, types)))}  ({source_line(node)})",
            help="module.float() before compiling",
        )


def _single(argument: Any) -> Any:
    return torch.float32 if argument in OTHER_REALS else argument


def _drop_type(node: Node) -> None:
    """Forgets in which type a call shall compute, if its operand has that."""
    source: Any = node.args[0]
    own = value_of(source).dtype
    if own is torch.float32 and value_of(node).dtype is own:
        node.kwargs = {name: value for name, value in node.kwargs.items() if name != "dtype"}
        node.args = tuple(argument for argument in node.args if argument is not own)
