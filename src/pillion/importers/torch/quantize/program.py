# SPDX-License-Identifier: Apache-2.0
"""What quantization gives to the importer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import constant_of, evaluate, fake_mode, value_of
from pillion.importers.torch.quantize.annotate import FloatOp

decomposed = torch.ops.quantized_decomposed


@dataclass(frozen=True)
class Conversion:
    """The calls of torch between real numbers and integers, with one scale or with one for each channel."""

    quantize: Any
    dequantize: Any


PER_TENSOR = Conversion(decomposed.quantize_per_tensor.default, decomposed.dequantize_per_tensor.default)
PER_CHANNEL = Conversion(decomposed.quantize_per_channel.default, decomposed.dequantize_per_channel.default)
QUANTIZE = frozenset({PER_TENSOR.quantize, PER_CHANNEL.quantize})
DEQUANTIZE = frozenset({PER_TENSOR.dequantize, PER_CHANNEL.dequantize})


@dataclass(frozen=True)
class QuantizedProgram:
    """A graph of aten ops between dequantize and quantize nodes, ready to import and to run in torch."""

    graph_module: GraphModule
    float_ops: tuple[FloatOp, ...] = ()
    warnings: tuple[str, ...] = ()

    def __call__(self, *inputs: Tensor) -> object:
        """The result of torch's own simulation of int8."""
        with torch.no_grad():
            return self.graph_module(*inputs)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes of the graph in running order."""
        return iter(self.graph_module.graph.nodes)


def complete_values(module: GraphModule) -> None:
    """Gives the nodes that conversion made (quantize, dequantize, folded constants) a fake tensor as value."""
    mode = fake_mode(module.graph)
    known: dict[tuple[object, ...], Any] = {}
    for node in module.graph.nodes:
        held = constant_of(node)
        if held is not None:
            node.meta["val"] = mode.from_tensor(held.detach(), static_shapes=True)
        elif node.op == "call_function" and value_of(node) is None:
            kind = _kind_of_value(node)
            if kind not in known:
                known[kind] = evaluate(module.graph, node.target, node.args, node.kwargs)
            node.meta["val"] = known[kind]


def _kind_of_value(node: Node) -> tuple[object, ...]:
    """What decides the shape and type of a result: of what quantizes or dequantizes the type of the operand and that of the
    result, not the numbers, so that most of a graph's nodes, which are these, are evaluated once for each shape."""
    if node.target not in QUANTIZE | DEQUANTIZE:
        return (node,)
    source, *others = (*node.args, *node.kwargs.values())
    value = value_of(source)  # type: ignore[arg-type]  # the tensor comes first
    return (
        node.target,
        value.shape,
        value.dtype,
        value.device,
        *(o for o in others if isinstance(o, torch.dtype)),
    )
