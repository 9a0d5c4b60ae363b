# SPDX-License-Identifier: Apache-2.0
"""Replaces observers by quantize and dequantize nodes, and quantizes constants.

torchao's conversion gives each reader its own dequantize node and recompiles after each step, which grows with
the cube of the depth for densely connected networks. Here readers share one, and the module is compiled once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase

from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.fx_nodes import CLAMPED, CLAMPS, argument_of, aten, constant_of, replace
from pillion.importers.torch.quantize.int16_observers import narrow_levels
from pillion.importers.torch.quantize.quantized_program import (
    PER_CHANNEL,
    PER_TENSOR,
    ConversionOperators,
    complete_values,
)
from pillion.importers.torch.rewrite.constant_folding import fold_constants
from pillion.importers.torch.rows.quantization import clamps_result
from pillion.ir.types import DType


@one_thread()
def convert(prepared: GraphModule) -> GraphModule:
    """Converts a module in place and returns it."""
    fold_constants(prepared)  # weights of a trained module may still be computed
    for node in prepared.graph.find_nodes(op="call_module"):
        observer = prepared.get_submodule(str(node.target))
        if isinstance(observer, (ObserverBase, FakeQuantizeBase)):
            _replace_observer(prepared, node, observer)
    for node in prepared.graph.find_nodes(op="get_attr"):
        if not node.users:
            prepared.graph.erase_node(node)
    prepared.graph.eliminate_dead_code()
    prepared.delete_all_unused_submodules()
    prepared.recompile()
    complete_values(prepared)
    return prepared


def _replace_observer(module: GraphModule, node: Node, observer: Any) -> None:
    """Replaces an observer by quantize and dequantize; quantizes constants here."""
    source: Any = node.args[0]
    if (levels := narrow_levels(observer)) is not None and clamps_result(source):
        source = _clamp_to_levels(
            module, source, *(level * float(observer.calculate_qparams()[0]) for level in levels)
        )
        node.args = (source,)
    conversion, parameters = _quantize_params(module, node, observer)
    graph = module.graph
    with graph.inserting_before(node):
        integers = graph.call_function(conversion.quantize, (source, *parameters))
        reals = graph.call_function(conversion.dequantize, (integers, *parameters))
    if source.op != "call_function" or source.target not in (PER_TENSOR.dequantize, PER_CHANNEL.dequantize):
        integers.meta.update({key: source.meta[key] for key in ("stack_trace",) if key in source.meta})
    replace(node, reals)
    tensor = constant_of(source)
    if tensor is not None:
        _store_quantized_constant(module, integers, tensor, map_arg(parameters, constant_of))


def _clamp_to_levels(module: GraphModule, source: Node, low: float, high: float) -> Node:
    """Clamps a tensor, with its own bounds if it is clamped already."""
    if source.target in CLAMPS and len(source.users) == 1:
        own_low, own_high = (
            (0.0, None)
            if source.target is aten.relu.default
            else (argument_of(source, 1), argument_of(source, 2))
        )
        low = low if own_low is None else max(low, own_low)
        high = high if own_high is None else min(high, own_high)
        operand = source.args[0]
    else:
        operand = source
    with module.graph.inserting_after(source):
        clamped = module.graph.create_node(
            "call_function", aten.clamp.default, (operand, low, high), name=f"{source.name}_clamped"
        )
    clamped.meta.update(source.meta)
    clamped.meta[CLAMPED] = source.name
    return clamped


def _quantize_params(
    module: GraphModule, node: Node, observer: Any
) -> tuple[ConversionOperators, tuple[Any, ...]]:
    """Returns the observed parameters as arguments of quantize and dequantize."""
    scale, zero_point = observer.calculate_qparams()
    bounds = (
        *(DType.INT16.bounds if narrow_levels(observer) else (observer.quant_min, observer.quant_max)),
        observer.dtype,
    )
    if observer.qscheme not in (torch.per_channel_affine, torch.per_channel_symmetric):
        return PER_TENSOR, (float(scale), int(zero_point), *bounds)
    buffers = (
        _insert_buffer(module, node, f"{node.name}_{what}", t)
        for what, t in (("scale", scale), ("zero_point", zero_point))
    )
    return PER_CHANNEL, (*buffers, int(observer.ch_axis), *bounds)


def _insert_buffer(module: GraphModule, before: Node, name: str, tensor: Tensor) -> Node:
    module.register_buffer(name, tensor.detach())
    with module.graph.inserting_before(before):
        return module.graph.get_attr(name)


def _store_quantized_constant(
    module: GraphModule, quantize: Node, tensor: Tensor, parameters: tuple[Any, ...]
) -> None:
    """Stores a constant's integers under the name of its quantize node."""
    name = quantize.name
    with torch.no_grad():
        integers = quantize.target(tensor, *parameters)  # type: ignore[operator]  # a call_function
    node = _insert_buffer(module, quantize, f"{name}_integers", integers)
    node.meta.update(quantize.meta)
    replace(quantize, node)
    node.name = name
