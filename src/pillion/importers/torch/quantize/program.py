# SPDX-License-Identifier: Apache-2.0
"""What quantization gives to the importer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import constant_of, evaluate, fake_mode, value_of
from pillion.importers.torch.quantize.annotate import FloatOp

decomposed = torch.ops.quantized_decomposed

QUANTIZE = frozenset({decomposed.quantize_per_tensor.default, decomposed.quantize_per_channel.default})
DEQUANTIZE = frozenset({decomposed.dequantize_per_tensor.default, decomposed.dequantize_per_channel.default})


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
        return iter(self.graph_module.graph.nodes)


def complete_values(module: GraphModule) -> None:
    """Gives the nodes that conversion made (quantize, dequantize, folded constants) a fake tensor as value."""
    mode = fake_mode(module.graph)
    for node in module.graph.nodes:
        held = constant_of(node)
        if held is not None:
            node.meta["val"] = mode.from_tensor(held.detach(), static_shapes=True)
        elif node.op == "call_function" and value_of(node) is None:
            node.meta["val"] = evaluate(module.graph, node.target, node.args, node.kwargs)
