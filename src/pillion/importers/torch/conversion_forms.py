# SPDX-License-Identifier: Apache-2.0
"""Canonical form of the quantize and dequantize nodes that quantizers of others leave: int8, full range, parameters
as numbers. Apart from reading, because each form is one rule with one refusal."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.quantize.quantized_program import PER_CHANNEL, PER_TENSOR
from pillion.importers.torch.rewrite.global_pools import global_pools_to_means, pools_to_depthwise
from pillion.ir.constraints import QuantizationConstraints

FULL = (-128, 127, torch.int8)
UINT8_OFFSET = 128
"""The difference between uint8 and int8, in integers and zero points."""
OPERATORS = {
    "quantize_per_tensor": PER_TENSOR.quantize,
    "dequantize_per_tensor": PER_TENSOR.dequantize,
    "quantize_per_channel": PER_CHANNEL.quantize,
    "dequantize_per_channel": PER_CHANNEL.dequantize,
}
MOVES = (aten.reshape.default, aten.permute.default)
"""Moves, in canonical form, that weights pass through."""


class ConversionError(PillionError):
    """A quantize or dequantize node without int8 form."""

    node: Node


def refuse_conversion(node: Node, actual: str, rule: str = "") -> ConversionError:
    """Returns the error for a conversion that has no int8 form."""
    error = ConversionError(
        "the converted program has a quantization without int8 form",
        rule=rule
        or "int8 or uint8 per tensor, int8 weights per channel with zero points of 0, int32 biases; all scales are constants",
        here=f"`{node.name}`: {actual}" + (f"  ({line})" if (line := fx.source_line(node)) else ""),
        help="configure the quantizer for static, symmetric int8 weights, or compile the float model with --quantize",
    )
    error.node = node
    return error


def canonicalize_conversions(module: GraphModule) -> None:
    """Rewrites all conversions of a captured program, without changing a value. Quantized constants become integers,
    int32 constants (biases) the numbers that they stand for, and narrow ranges clamps."""
    for node in fx.calls(module.graph):
        if fx.conversion_name(node):
            _use_numbers(node)
    for node in fx.calls(module.graph):
        name = fx.conversion_name(node)
        if name.startswith("quantize") and fx.is_constant(node.args[0]):
            _replace_by_value(node)
        elif name.startswith("dequantize") and fx.is_constant(node.args[0]):
            _canonicalize_constant(node)
        elif name == "dequantize_per_tensor":
            _require_own_parameters(node)
        elif name:
            _require_activation(node)
    for node in fx.calls(module.graph, [PER_TENSOR.quantize]):
        _use_int8(node)
    module.graph.eliminate_dead_code()


def _use_numbers(node: Node) -> None:
    """Gives a conversion its plain form: numbers for the parameters of a tensor, no keywords."""
    name = fx.conversion_name(node)
    kept = {key: value for key, value in node.kwargs.items() if key == "out_dtype" and value is None}
    if name not in OPERATORS or (node.kwargs and kept.keys() != node.kwargs.keys()):
        raise refuse_conversion(node, str(node.target))
    if name.endswith("per_tensor"):
        numbers = [_as_number(node, argument) for argument in node.args[1:3]]
        node.args = (node.args[0], float(numbers[0]), int(numbers[1]), *map(_as_plain, node.args[3:]))
    node.target, node.kwargs = OPERATORS[name], {}


def _as_number(node: Node, argument: Any) -> Any:
    tensor = fx.constant_of(argument)
    if tensor is None and isinstance(argument, Node):
        raise refuse_conversion(node, "its scale is computed in each run (dynamic quantization)")
    return argument if tensor is None else tensor.item()


def _as_plain(argument: Any) -> Any:
    tensor = fx.constant_of(argument)
    return argument if tensor is None else int(tensor.item())


def _replace_by_value(quantize: Node) -> None:
    """Replaces the quantize of a constant by its integers."""
    args = map_arg(quantize.args, _value_of)
    with torch.no_grad():
        integers: Tensor = quantize.target(*args)  # type: ignore[operator]  # a call_function
    fx.replace(quantize, fx.constant(quantize, integers, f"{quantize.name}_integers"))


def _value_of(node: Node) -> Tensor:
    tensor = fx.constant_of(node)
    if tensor is None:
        raise refuse_conversion(node, "a constant that is still computed")
    return tensor


def _canonicalize_constant(dequantize: Node) -> None:
    """Keeps int8 constants behind their dequantize, and replaces integers of 32 bits by real numbers."""
    integers, zero_points = _value_of(dequantize.args[0]), dequantize.args[2]  # type: ignore[arg-type]  # a node
    if integers.dtype == torch.int32:
        _replace_by_value(dequantize)
    elif integers.dtype == torch.uint8 and fx.conversion_name(dequantize).endswith("per_tensor"):
        shifted = (integers.to(torch.int16) - UINT8_OFFSET).to(torch.int8)
        fresh = fx.constant(dequantize, shifted, f"{dequantize.name}_int8")
        scale, zero_point = dequantize.args[1], int(zero_points) - UINT8_OFFSET  # type: ignore[arg-type]  # a number
        dequantize.args = (fresh, scale, zero_point, *FULL)
    elif integers.dtype != torch.int8:
        raise refuse_conversion(dequantize, f"a constant of {integers.dtype}")
    elif isinstance(zero_points, Node) and bool(_value_of(zero_points).any()):
        raise refuse_conversion(dequantize, "a zero point per channel")


def _require_activation(quantize: Node) -> None:
    """Raises if an activation is not of 8 bits with one scale."""
    if fx.conversion_name(quantize) != "quantize_per_tensor":
        raise refuse_conversion(quantize, "an activation with a scale per channel")
    if quantize.args[5] not in (torch.int8, torch.uint8):
        raise refuse_conversion(quantize, f"an activation of {quantize.args[5]}")
    is_output = quantize.args[5] is torch.int8
    computing = [
        u for u in quantize.users if not fx.conversion_name(u) and not (is_output and u.op == "output")
    ]
    if computing:
        names = ", ".join(f"`{user.name}`" for user in computing)
        raise refuse_conversion(
            quantize,
            f"{names} takes the integers themselves",
            "a dequantize follows each quantize, but for outputs of int8",
        )


def _require_own_parameters(dequantize: Node) -> None:
    """Raises if an activation is not dequantized as it was quantized."""
    source: Any = dequantize.args[0]
    if source.op == "placeholder" and fx.is_tensor(source, torch.int8):
        first = next(iter(source.users))
        if any(user.args[1:3] != first.args[1:3] for user in source.users):
            raise refuse_conversion(dequantize, f"`{source.name}` is not read with one scale")
        dequantize.args = (*dequantize.args[:3], *FULL)
    elif fx.conversion_name(source) != "quantize_per_tensor":
        raise refuse_conversion(
            dequantize,
            f"`{source.name}` gives {str(source.meta['val'].dtype).removeprefix('torch.')}",
            "a quantize precedes each dequantize, but for inputs of int8",
        )
    elif dequantize.args[1:] != source.args[1:]:
        raise refuse_conversion(dequantize, f"other parameters than those of `{source.name}`")


def _use_int8(quantize: Node) -> None:
    """Makes a quantize int8 in full range, with a clamp behind it if its range was narrower."""
    source, scale, zero_point, low, high, dtype = quantize.args
    offset = UINT8_OFFSET if dtype is torch.uint8 else 0
    parameters: Any = (scale, zero_point - offset, *FULL)  # type: ignore[operator]  # a number
    readers = [user for user in quantize.users if user.op != "output"]
    for dequantize in readers:
        dequantize.args = (quantize, *parameters)
    if (low - offset, high - offset, torch.int8) != FULL:  # type: ignore[operator]  # numbers
        bounds = [float(scale) * (bound - zero_point) for bound in (low, high)]  # type: ignore[operator, arg-type]  # numbers
        integers = fx.call(quantize, PER_TENSOR.quantize, source, *parameters)
        reals = fx.call(quantize, PER_TENSOR.dequantize, integers, *parameters)
        source = fx.call(quantize, aten.clamp.default, reals, *bounds)
    quantize.args = (source, *parameters)
    for node in (quantize, *readers):
        node.meta["val"] = call_value(node)


def call_value(node: Node) -> Any:
    """Returns the fake tensor of a conversion's result."""
    dtype = torch.int8 if node.target is PER_TENSOR.quantize else torch.float32
    source: Any = node.args[0]
    return source.meta["val"].to(dtype)


def move_constants(module: GraphModule) -> None:
    """Applies moves of quantized constants to their integers, such as transposed weights of matrix products."""
    for node in fx.calls(module.graph, MOVES):
        dequantize: Any = node.args[0]
        if fx.conversion_name(dequantize).startswith("dequantize") and fx.is_constant(dequantize):
            integers = _value_of(dequantize.args[0])
            parameters = dequantize.args[1:]
            if dequantize.target is PER_CHANNEL.dequantize:
                axis = _axis_after(node, integers, dequantize.args[3])
                parameters = (*parameters[:2], axis, *parameters[3:])
            moved: Tensor = node.target(integers, *node.args[1:])  # type: ignore[operator]  # a call_function
            fresh = fx.constant(node, moved.contiguous(), f"{node.name}_integers")
            fx.replace(node, fx.call(node, dequantize.target, fresh, *parameters))


def _axis_after(move: Node, tensor: Tensor, axis: int) -> int:
    """Returns the axis of the channels after a move."""
    index = torch.arange(tensor.shape[axis]).reshape([-1 if a == axis else 1 for a in range(tensor.dim())])
    moved: Tensor = move.target(index.expand(tensor.shape), *move.args[1:])  # type: ignore[operator]  # a call_function
    channels = tensor.shape[axis]
    for candidate, size in enumerate(fx.shape_of(move)):
        shape = [-1 if a == candidate else 1 for a in range(moved.dim())]
        if size == channels and bool((moved == torch.arange(channels).reshape(shape)).all()):
            return candidate
    raise refuse_conversion(move, "weights with a scale per channel are reshaped across channels")


def rescale_pools(module: GraphModule) -> None:
    """Makes average pools whose result has another scale than their operand means and depthwise convolutions."""
    nothing = QuantizationConstraints()
    global_pools_to_means(module, nothing, has_other_scale)
    before = set(module.graph.nodes)
    pools_to_depthwise(module, nothing, has_other_scale)
    for layer in fx.calls(module.graph, [aten.conv2d.default]):
        if layer not in before:
            weights: Any = layer.args[1]
            scale = float(_value_of(weights).amax()) / FULL[1]
            integers = fx.constant(
                layer, torch.full(fx.shape_of(weights), FULL[1], dtype=torch.int8), weights.name
            )
            layer.update_arg(1, fx.call(layer, PER_TENSOR.dequantize, integers, scale, 0, *FULL))


def has_other_scale(node: Node) -> bool:
    """Whether a result is quantized with other parameters than its operand."""
    source: Any = node.args[0]
    own = source.args[1:] if fx.conversion_name(source) == "dequantize_per_tensor" else None
    return any(
        fx.conversion_name(user) == "quantize_per_tensor" and user.args[1:] != own for user in node.users
    )
