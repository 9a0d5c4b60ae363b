# SPDX-License-Identifier: Apache-2.0
"""What quantization gives to the importer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx import Graph, GraphModule, Node

from pillion.importers.torch.loops import run
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
    float_module: GraphModule | None = None
    """The same model before quantization, whose nodes have the same names."""

    def __call__(self, *inputs: Tensor) -> object:
        """The result of torch's own simulation of int8."""
        with torch.no_grad():
            return run(self.graph_module, *inputs)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes of the graph in running order."""
        return iter(self.graph_module.graph.nodes)


def complete_values(module: GraphModule) -> None:
    """Gives the nodes that conversion made (quantize, dequantize, constants) a fake tensor as value."""
    values = _FakeTensors(module.graph)
    for node in module.graph.nodes:
        held = constant_of(node)
        if held is not None:
            node.meta["val"] = values.like(held, held.dtype)
        elif node.target in QUANTIZE | DEQUANTIZE:
            node.meta["val"] = values.like(value_of(node.args[0]), _result_type(node))
        elif node.op == "call_function" and value_of(node) is None:
            node.meta["val"] = evaluate(module.graph, node.target, node.args, node.kwargs)


class _FakeTensors:
    """One for all tensors of a shape and type: most nodes of a graph are conversions, and torch takes long to evaluate them."""

    def __init__(self, graph: Graph) -> None:
        self._mode = fake_mode(graph)
        self._known: dict[tuple[object, ...], Tensor] = {}

    def like(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """A fake tensor that differs from a tensor in its type alone."""
        kind = (tensor.shape, tensor.stride(), dtype, tensor.device)
        if kind not in self._known:
            # Made directly: to ask the mode for an empty tensor takes it milliseconds.
            bare = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
            self._known[kind] = FakeTensor(self._mode, bare, tensor.device)
        return self._known[kind]


def _result_type(conversion: Node) -> torch.dtype:
    if conversion.target in DEQUANTIZE:
        return torch.float32
    return next(given for given in conversion.args if isinstance(given, torch.dtype))
