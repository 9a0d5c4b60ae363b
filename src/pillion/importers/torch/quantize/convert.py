# SPDX-License-Identifier: Apache-2.0
"""Observers become quantize and dequantize nodes, constants become int8.

torchao has a conversion too. It gives each reader of a tensor a dequantize node of its own, remakes the arguments of the reader for
each, and writes the module's Python anew after every step: for nets whose layers read all layers before them the first two grow with
the cube of the depth. Here every observer is looked at once, all readers of a tensor share its dequantize node, and the Python
is written once, at the end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase

from pillion.importers.torch.nodes import constant_of, replace
from pillion.importers.torch.quantize.program import PER_CHANNEL, PER_TENSOR, Conversion, complete_values
from pillion.importers.torch.rewrite.constants import fold_constants
from pillion.outside.threads import one_thread


@one_thread()
def convert(prepared: GraphModule) -> GraphModule:
    """Gives the module itself, with numbers in the place of what observed them."""
    fold_constants(prepared)  # weights of a trained module may still be computed
    for node in prepared.graph.find_nodes(op="call_module"):
        observer = prepared.get_submodule(str(node.target))
        if isinstance(observer, (ObserverBase, FakeQuantizeBase)):
            _round(prepared, node, observer)
    for node in prepared.graph.find_nodes(op="get_attr"):
        if not node.users:
            prepared.graph.erase_node(node)
    prepared.graph.eliminate_dead_code()
    prepared.delete_all_unused_submodules()
    prepared.recompile()
    complete_values(prepared)
    return prepared


def _round(module: GraphModule, node: Node, observer: Any) -> None:
    """x → observer becomes x → quantize → dequantize; a constant is quantized here."""
    source: Any = node.args[0]
    conversion, parameters = _parameters(module, node, observer)
    graph = module.graph
    with graph.inserting_before(node):
        integers = graph.call_function(conversion.quantize, (source, *parameters))
        reals = graph.call_function(conversion.dequantize, (integers, *parameters))
    if source.op != "call_function" or source.target not in (PER_TENSOR.dequantize, PER_CHANNEL.dequantize):
        integers.meta.update({key: source.meta[key] for key in ("stack_trace",) if key in source.meta})
    replace(node, reals)
    held = constant_of(source)
    if held is not None:
        _hold(module, integers, held, [_literal(p) for p in parameters])


def _parameters(module: GraphModule, node: Node, observer: Any) -> tuple[Conversion, tuple[Any, ...]]:
    """What the observer came to, as arguments of quantize and dequantize."""
    scale, zero_point = observer.calculate_qparams()
    bounds = (observer.quant_min, observer.quant_max, observer.dtype)
    if observer.qscheme not in (torch.per_channel_affine, torch.per_channel_symmetric):
        return PER_TENSOR, (float(scale), int(zero_point), *bounds)
    held = (
        _buffer(module, node, f"{node.name}_{what}", t)
        for what, t in (("scale", scale), ("zero_point", zero_point))
    )
    return PER_CHANNEL, (*held, int(observer.ch_axis), *bounds)


def _buffer(module: GraphModule, before: Node, name: str, tensor: Tensor) -> Node:
    module.register_buffer(name, tensor.detach())
    with module.graph.inserting_before(before):
        return module.graph.get_attr(name)


def _literal(parameter: Any) -> Any:
    return constant_of(parameter) if isinstance(parameter, Node) else parameter


def _hold(module: GraphModule, quantize: Node, held: Tensor, parameters: list[Any]) -> None:
    """The integers of a constant, under the name of what would make them."""
    name = quantize.name
    with torch.no_grad():
        integers = quantize.target(held, *parameters)  # type: ignore[operator]  # a call_function
    node = _buffer(module, quantize, f"{name}_integers", integers)
    node.meta.update(quantize.meta)
    replace(quantize, node)
    node.name = name
