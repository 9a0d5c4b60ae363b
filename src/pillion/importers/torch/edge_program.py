# SPDX-License-Identifier: Apache-2.0
"""Reads programs in ExecuTorch's edge dialect, or parts of them, as modules of aten operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from pillion.errors import PillionError
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.fx_nodes import SOURCE_NODE, aten, call, calls, constant_of, fake_result

COPY = "_copy"
TO_CHANNELS_LAST, TO_CHANNELS_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
"""Orders of axes."""
DIM_ORDER_CASTS = {"_clone_dim_order": aten.clone.default, "_to_dim_order_copy": aten._to_copy.default}
"""The edge dialect's copies into another axis order, which say nothing about values."""


def aten_module(exported: ExportedProgram, tensors: Mapping[str, Any] = MappingProxyType({})) -> GraphModule:
    """Returns a program as a module of aten operators; its nodes keep the names of the program's nodes in their
    metadata. `tensors` replace fake tensors in the program's state, and 1 replaces fake numbers, which are no
    parameters. Raises if any other tensor stays fake."""
    with quiet_torch():
        module: Any = exported.module(check_guards=False)
    for node in module.graph.nodes:
        node.meta[SOURCE_NODE] = node.name
        fake = constant_of(node)
        if isinstance(fake, FakeTensor) and tensors and (node.target in tensors or fake.numel() == 1):
            default = torch.ones(fake.shape, dtype=fake.dtype)
            _set_tensor(module, node.target, tensors.get(node.target, default))
        elif isinstance(fake, FakeTensor):
            raise PillionError(
                "the values of the program's tensors are not known",
                rule="PillionPartitioner is called by to_edge_transform_and_lower, which shows it the program with its values",
                here=f"`{node.target}` has a shape and no values",
                help="to_edge_transform_and_lower(exported, partitioner=[PillionPartitioner(target)])",
            )
    for node in calls(module.graph):
        _use_aten(node)
    module.recompile()
    return module


def _set_tensor(module: GraphModule, name: str, tensor: Tensor) -> None:
    owner, _, last = name.rpartition(".")
    holder = module.get_submodule(owner)
    delattr(holder, last)
    holder.register_buffer(last, tensor.detach())


def _use_aten(node: Node) -> None:
    """Replaces an operator of the edge dialect by the aten operator that computes the same."""
    operator: Any = getattr(node.target, "_op", node.target)
    if not isinstance(operator, torch._ops.OpOverload):
        return
    name = operator._schema.name.partition("::")[2]
    viewed = getattr(aten, name.removesuffix(COPY), None) if name.endswith(COPY) else None
    if name in DIM_ORDER_CASTS:
        operator = DIM_ORDER_CASTS[name]
        node.kwargs = {k: v for k, v in node.kwargs.items() if k == "dtype" and v is not None}
    elif operator.namespace == "aten" and viewed is not None and name != "lift_fresh_copy":
        operator = getattr(viewed, operator._overloadname)
    node.target = operator


def is_channels_last(value: Any) -> bool:
    """Whether an image lies in memory as channels last."""
    return (
        isinstance(value, Tensor)
        and value.dim() == 4
        and not value.is_contiguous()
        and value.is_contiguous(memory_format=torch.channels_last)
    )


def use_memory_order(module: GraphModule) -> None:
    """Gives inputs and outputs that lie in memory as channels last the shape that they have there."""
    first = next(node for node in module.graph.nodes if node.op not in ("placeholder", "get_attr"))
    for node in module.graph.find_nodes(op="placeholder"):
        if is_channels_last(value := fake_result(node)):
            node.meta["val"] = value.permute(TO_CHANNELS_LAST)
            image = call(first, aten.permute.default, node, TO_CHANNELS_FIRST)
            image.meta["val"] = value
            node.replace_all_uses_with(image, lambda user, image=image: user is not image)
    output = module.graph.output_node()

    def as_stored(node: Node) -> Node:
        return (
            call(output, aten.permute.default, node, TO_CHANNELS_LAST)
            if is_channels_last(fake_result(node))
            else node
        )

    output.args = map_arg(output.args, as_stored)
    module.recompile()


def part_of(module: GraphModule, is_kept: Callable[[Node], bool], state: Collection[str] = ()) -> GraphModule:
    """Returns the calls of a module for which `is_kept` holds as a module of their own: results of other calls and
    tensors of the `state` that they read become inputs, and results of theirs that others read outputs."""
    graph, copied = Graph(), {}

    def copy(node: Node) -> Node:
        if node not in copied and node.op == "get_attr" and node.target not in state:
            copied[node] = graph.node_copy(node)
        elif node not in copied:
            copied[node] = graph.placeholder(node.name)
            copied[node].meta.update(node.meta)
        return copied[node]

    outputs = []
    for node in module.graph.nodes:
        if node.op == "call_function" and is_kept(node):
            for operand in node.all_input_nodes:
                copy(operand)
            copied[node] = graph.node_copy(node, copied.__getitem__)
            if any(user.op == "output" or not is_kept(user) for user in node.users):
                outputs.append(copied[node])
    graph.output(tuple(outputs))
    part = GraphModule(module, graph)
    part.graph.lint()
    return part
