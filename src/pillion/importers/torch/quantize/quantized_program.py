# SPDX-License-Identifier: Apache-2.0
"""The result of quantization, which the importer reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx import Graph, GraphModule, Node

from pillion.importers.torch.fx_nodes import constant_of, evaluate, fake_mode, fake_result
from pillion.importers.torch.loop_nodes import run_with_loops
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.ir.precision_choice import PrecisionChoice

decomposed = torch.ops.quantized_decomposed


@dataclass(frozen=True)
class ConversionOperators:
    """Torch's quantize and dequantize operators, per tensor or per channel."""

    quantize: Any
    dequantize: Any


PER_TENSOR = ConversionOperators(
    decomposed.quantize_per_tensor.default, decomposed.dequantize_per_tensor.default
)
PER_CHANNEL = ConversionOperators(
    decomposed.quantize_per_channel.default, decomposed.dequantize_per_channel.default
)
QUANTIZE = frozenset({PER_TENSOR.quantize, PER_CHANNEL.quantize})
DEQUANTIZE = frozenset({PER_TENSOR.dequantize, PER_CHANNEL.dequantize})


@dataclass(frozen=True)
class QuantizedProgram:
    """A graph of aten operators between dequantize and quantize nodes; torch can run it.

    - Placeholders are the model's inputs in order, `get_attr` nodes its constants; each node has its fake tensor in `meta["val"]`.
    - A quantized tensor is a quantize followed by one dequantize that all its readers share, also at inputs and outputs.
    - Weights are int8 behind `dequantize_per_channel`, other constants int8 behind `dequantize_per_tensor`; biases stay float, to be
      rounded at s_x · s_w.
    - A layer whose result goes directly into `relu` or `clamp` has that output range. A dequantize directly followed by a quantize
      requantizes. Calls without conversions around them are float, and listed in `float_ops`.
    - Calls have rows (`rows.quantization.RULES`) or are float ops: there are no in-place calls, no views but `reshape`, `slice`, `cat`
      and `permute`, no products but `linear` and `bmm`, no clamps but `relu` and `clamp`, no scalar operands, no division by constants,
      and no batch norms with running statistics."""

    graph_module: GraphModule
    float_ops: tuple[FloatOp, ...] = ()
    warnings: tuple[str, ...] = ()
    float_module: GraphModule | None = None
    """The model before quantization, with equal node names."""
    precision: PrecisionChoice | None = None
    """The tensors with 16 bits, chosen for a quality goal."""
    samples: Sequence[Sequence[Tensor]] = ()
    """The first calibration samples, without states."""
    fitted_layers: int = 0
    """Layers whose weights were rounded for calibration samples."""

    def __call__(self, *inputs: Tensor) -> object:
        """Runs torch's simulation of int8."""
        with torch.no_grad():
            return run_with_loops(self.graph_module, *inputs)

    @property
    def nodes(self) -> Iterator[Node]:
        """Nodes in execution order."""
        return iter(self.graph_module.graph.nodes)


def complete_values(module: GraphModule) -> None:
    """Adds fake tensors to the nodes that conversion created."""
    values = _FakeTensors(module.graph)
    for node in module.graph.nodes:
        tensor = constant_of(node)
        if tensor is not None:
            node.meta["val"] = values.like(tensor, tensor.dtype)
        elif node.target in QUANTIZE | DEQUANTIZE:
            types = [torch.float32] if node.target in DEQUANTIZE else node.args
            dtype = next(dtype for dtype in types if isinstance(dtype, torch.dtype))
            node.meta["val"] = values.like(fake_result(node.args[0]), dtype)
        elif node.op == "call_function" and fake_result(node) is None:
            node.meta["val"] = evaluate(module.graph, node.target, node.args, node.kwargs)


class _FakeTensors:
    """Caches one fake tensor per shape and type, because evaluating each conversion is slow."""

    def __init__(self, graph: Graph) -> None:
        self._mode = fake_mode(graph)
        self._known: dict[tuple[object, ...], Tensor] = {}

    def like(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """Returns a fake tensor like `tensor`, of another type."""
        kind = (tensor.shape, tensor.stride(), dtype, tensor.device)
        if kind not in self._known:
            # Made directly: to ask the mode for an empty tensor takes it milliseconds.
            bare = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
            self._known[kind] = FakeTensor(self._mode, bare, tensor.device)
        return self._known[kind]
