# SPDX-License-Identifier: Apache-2.0
"""Finds the parts of a converted program that compile, and why the other calls do not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.conversion_forms import ConversionError
from pillion.importers.torch.edge_program import aten_module, is_channels_last, part_of
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.importers.torch.quantize.converted_program import canonicalize_converted, float_nodes

TYPES = (torch.float32, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
"""The types that cross the borders of a partition."""


@dataclass(frozen=True)
class Division:
    """The nodes of each partition, and the calls that are left, each with the reason."""

    parts: list[list[Node]]
    left: list[FloatOp]

    @cached_property
    def taken(self) -> frozenset[str]:
        """The names of all nodes in partitions."""
        return frozenset(node.name for part in self.parts for node in part)


def divide(exported: ExportedProgram, tensors: Mapping[str, Any]) -> Division:
    """Divides a program. `tensors` are the values of its state, if the program itself has fake ones."""
    module = aten_module(exported, tensors)
    state = frozenset(exported.graph_signature.buffers_to_mutate.values())
    reasons = {n.name: "" for n in fx.calls(module.graph) if not isinstance(n.target, _IN_MODULES)}
    while fresh := _fresh_reasons(module, state, reasons):
        reasons |= fresh
    aten = {node.name: node for node in module.graph.nodes}
    parts = []
    for part in _proposed_parts(exported, reasons):
        computing = [n for n in part if not fx.conversion_name(aten[n.name]) and n is _owner(n)]
        odd = next((n for n in _border(exported, part) if _has_other_order(fx.fake_result(n))), None)
        if computing and odd is None:
            parts.append(part)
        elif odd is not None:
            reasons |= {n.name: f"the axes of `{odd.name}` have another order in memory" for n in computing}
    return Division(parts, [_float_op(aten[name], why) for name, why in reasons.items() if why])


_IN_MODULES = (torch._ops.OpOverload, BuiltinFunctionType)
"""Operators, and the function that takes one of several results. All else is not a call of aten's."""


def _has_other_order(value: Tensor) -> bool:
    """Whether the axes of a tensor lie in memory neither in their order nor as channels last."""
    return not value.is_contiguous() and not is_channels_last(value)


def _owner(node: Node) -> Node:
    """Returns the call that computes a result."""
    return node.args[0] if node.target is operator.getitem else node  # type: ignore[return-value]  # a node


def _fresh_reasons(module: GraphModule, state: frozenset[str], reasons: Mapping[str, str]) -> dict[str, str]:
    """Returns why further calls have no int8 form once the calls in `reasons` are left out."""

    def is_kept(node: Node) -> bool:
        return node.op == "call_function" and _owner(node).name not in reasons

    kept = [node for node in module.graph.nodes if is_kept(node)]
    found = {_owner(n).name: why for n in kept if (why := _border_reason(n, is_kept))}
    if found or not kept:
        return found
    part = part_of(module, is_kept, state)
    try:
        canonicalize_converted(part)
        named = [(node.meta.get(fx.SOURCE_NODE), why) for node, why in float_nodes(part)]
    except ConversionError as error:
        named = [(error.node.meta.get(fx.SOURCE_NODE), error.here)]
    except PillionError as error:
        named = [(None, f"{error.what}: {error.here}")]
    names = {_owner(node).name for node in kept}
    found = {name: why for name, why in named if name in names}
    return found or {name: named[0][1] for name in names if named}


def _border_reason(node: Node, is_kept: Callable[[Node], bool]) -> str:
    """Returns why a value that a call shares with others cannot cross the border of a partition; empty if it can."""
    operands = (n for n in node.all_input_nodes if n.op != "get_attr" and not is_kept(n))
    for operand in operands:
        if (dtype := fx.fake_result(operand).dtype) not in TYPES:
            return f"its operand `{operand.name}` is of type {str(dtype).removeprefix('torch.')}"
    value = fx.fake_result(node)
    is_read = any(user.op == "output" or not is_kept(user) for user in node.users)
    if is_read and isinstance(value, Tensor) and value.dtype not in TYPES:
        return f"its result is of type {str(value.dtype).removeprefix('torch.')}"
    return ""


def _proposed_parts(exported: ExportedProgram, reasons: Mapping[str, str]) -> Iterator[list[Node]]:
    """Yields the largest groups of connected calls without reasons; no group waits for itself."""

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
            return node.op == "call_function" and _owner(node).name not in reasons

    with quiet_torch():
        proposer = CapabilityBasedPartitioner(
            exported.graph_module, Support(), allows_single_node_partition=True
        )
        for proposed in proposer.propose_partitions():
            order = {node: number for number, node in enumerate(exported.graph.nodes)}
            yield sorted(proposed.nodes, key=order.__getitem__)


def _border(exported: ExportedProgram, part: list[Node]) -> Iterator[Node]:
    """Yields the values that a partition takes and gives."""
    inside, inputs = set(part), set(exported.graph_signature.user_inputs)
    for node in part:
        for operand in node.all_input_nodes:
            if operand not in inside and (operand.op != "placeholder" or operand.name in inputs):
                yield operand
        if isinstance(fx.fake_result(node), Tensor) and not inside.issuperset(node.users):
            yield node


def _float_op(node: Node, reason: str) -> FloatOp:
    return FloatOp(fx.operator_name(node), fx.source_line(node), reason, node.name)
