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
    """Gives the nodes that conversion made (quantize, dequantize, constants) a fake tensor as value."""
    mode = fake_mode(module.graph)
    like: dict[tuple[object, ...], Tensor] = {}
    with torch.no_grad():
        for node in module.graph.nodes:
            held = constant_of(node)
            if held is not None:
                kind = (held.shape, held.stride(), held.dtype, held.device)
                if kind not in like:
                    like[kind] = mode.from_tensor(held.detach(), static_shapes=True)
                node.meta["val"] = like[kind]
            elif node.target in QUANTIZE | DEQUANTIZE:
                node.meta["val"] = _converted_value(node)
            elif node.op == "call_function" and value_of(node) is None:
                node.meta["val"] = evaluate(module.graph, node.target, node.args, node.kwargs)


def _converted_value(node: Node) -> Tensor:
    """The operand in the other type: most nodes are conversions, and torch takes long to evaluate them."""
    source: Any = node.args[0]
    if node.target in QUANTIZE:
        dtype = next(given for given in node.args if isinstance(given, torch.dtype))
        return value_of(source).to(dtype)
    was_real = source.target in QUANTIZE
    return value_of(source.args[0]) if was_real else value_of(source).to(torch.float32)
