# SPDX-License-Identifier: Apache-2.0
"""Helpers that read and insert nodes of torch.fx graphs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from pillion.ir.graph import without_control_characters

aten = torch.ops.aten
Target = Callable[..., Any]


def torch_operators(names: str, overload: str = "default") -> tuple[Any, ...]:
    """Returns torch's operators with the given names, which spaces separate."""
    return tuple(getattr(getattr(aten, name), overload) for name in names.split())


CONVOLUTIONS = (*torch_operators("conv1d conv2d conv_transpose1d"), aten.conv_transpose2d.input)
"""The convolutions of signals and images."""
CLAMPS = (aten.relu.default, aten.clamp.default)
"""The clamps that a layer's range absorbs."""
LIBRARY = "quantized_decomposed"
"""Namespace of torch's quantize and dequantize operators, registered by torchao."""
CallLowering = Callable[[Node], Node | None]
"""Returns the replacement of a call; None if the call stays or was already replaced."""

RANDOM = torch.Tag.nondeterministic_seeded

SOURCE_NODE = "pillion_source_node"
"""Metadata key of the node's name in the program that the graph was made from."""
CLAMPED = "pillion_clamped"
"""Metadata key of the name of the tensor that a node clamps to fewer levels, whose name it takes."""
KEPT_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", SOURCE_NODE)
"""Metadata that a replacement node inherits."""

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TORCH = os.path.dirname(torch.__file__)


def fake_result(node: Node) -> Any:
    """Returns the fake tensor (or tuple of fake tensors) of a node's result."""
    return node.meta.get("val")


def conversion_name(node: object) -> str:
    """Returns the name of the quantize or dequantize operator that a node calls; empty for all other nodes."""
    target = getattr(node, "target", None)
    is_one = isinstance(target, torch._ops.OpOverload) and target.namespace == LIBRARY
    return target.overloadpacket.__name__ if is_one else ""  # type: ignore[union-attr]  # an OpOverload


def shape_of(node: Node) -> tuple[int, ...]:
    """Returns the shape of a node's result."""
    return tuple(int(size) for size in fake_result(node).shape)


def is_tensor(node: object, dtype: torch.dtype = torch.float32) -> bool:
    """Whether `node` is a node whose result is one tensor of `dtype`."""
    value = fake_result(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.dtype == dtype


def constant_of(node: object) -> Tensor | None:
    """Returns the tensor of a `get_attr` node; None for all other nodes."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    attribute: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        attribute = getattr(attribute, part)
    return attribute if isinstance(attribute, Tensor) else None


def constant_tensor(node: object) -> Tensor:
    """Returns the tensor of a node that is a constant, detached."""
    held = constant_of(node)
    assert held is not None, f"{node} is a constant"
    return held.detach()


def is_constant(node: object) -> bool:
    """Whether a result depends on no input. Weights computed from parameters during training are constant, too."""
    return isinstance(node, Node) and all(_is_attribute_or_call(n) for n in _upstream_nodes(node))


def evaluate_constant(node: Any) -> Any:
    """Evaluates a node for which `is_constant` holds."""
    tensor = constant_of(node)
    if tensor is not None:
        return tensor
    args, kwargs = map_arg((node.args, dict(node.kwargs)), evaluate_constant)
    with torch.no_grad():
        return node.target(*args, **kwargs)


def constant_nodes(graph: Graph) -> frozenset[Node]:
    """Returns all nodes for which `is_constant` holds, in one walk over the graph."""
    constants: set[Node] = set()
    for node in graph.nodes:
        if _is_attribute_or_call(node) and constants.issuperset(node.all_input_nodes):
            constants.add(node)
    return frozenset(constants)


def fixed_tensor(node: object, training: bool = False) -> Tensor | None:
    """Returns the tensor of a constant; None for other nodes, and for tensors that `training` changes."""
    return None if training and is_trainable(node) else constant_of(node)


def is_trainable(node: object) -> bool:
    """Whether a constant is, or is computed from, a parameter that training changes."""
    return is_constant(node) and any(_is_parameter(n) for n in _upstream_nodes(node))


def _upstream_nodes(node: object) -> Iterator[Node]:
    """Yields a node and everything upstream of it, each node once. Iterative, because graphs are deep."""
    waiting = [node] if isinstance(node, Node) else []
    seen = set(waiting)
    while waiting:
        current = waiting.pop()
        yield current
        fresh = [n for n in current.all_input_nodes if n not in seen]
        seen.update(fresh)
        waiting += fresh


def _is_attribute_or_call(node: Node) -> bool:
    if node.op == "get_attr":
        return constant_of(node) is not None
    return node.op == "call_function" and RANDOM not in getattr(node.target, "tags", ())


def _is_parameter(node: Node) -> bool:
    parameter = constant_of(node)
    return isinstance(parameter, nn.Parameter) and parameter.requires_grad


def source_line(node: Node) -> str:
    """Returns the line of the user's model that a node comes from, as `model.py:41`; its module path if no line is
    known."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith((_TORCH, "<"))]
    if own:
        return without_control_characters(f"{own[-1][0].rpartition('/')[2]}:{own[-1][1]}")
    return f"module {module_of(node)}" if module_of(node) else ""


def source_description(node: Node) -> str:
    """Returns the text for `Op.source`: source line and module path, as `model.py:41 features.3.conv`."""
    line, module = source_line(node), module_of(node)
    return without_control_characters(
        f"{line} {module}" if module and not line.startswith("module ") else line
    )


def operator_name(node: Node) -> str:
    """Returns the name of the operator or function that a node calls, without memory addresses."""
    target = node.target
    return str(target if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", target))


def module_of(node: Node) -> str:
    """Returns the path of the module whose forward recorded the node, such as `features.3.conv`."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    if stack and str(stack[0][1]).endswith(".StatefulModule"):  # wraps the user's module
        path = path.removeprefix("module").removeprefix(".")
    return path.replace("L['self'].", "").replace("L['self']", "")


def argument_of(node: Node, position: int, default: Any = None) -> Any:
    """Returns an argument by its position in the schema, whether it was passed by position, by name or by default."""
    if position < len(node.args):
        return node.args[position]
    schema = getattr(node.target, "_schema", None)
    if schema is None or position >= len(schema.arguments):
        return default
    declared = schema.arguments[position]
    return node.kwargs.get(declared.name, declared.default_value if declared.has_default_value() else default)


def named_argument(node: Node, name: str) -> Any:
    """Returns an argument by its name in the schema."""
    names = [declared.name for declared in node.target._schema.arguments]  # type: ignore[union-attr]  # an OpOverload
    return argument_of(node, names.index(name))


def per_axis(given: int | Sequence[int], rank: int) -> list[int]:
    """Returns one number per axis from a number, a list of one, or a list of `rank` numbers."""
    numbers = [given] if isinstance(given, int) else list(given)
    return numbers * rank if len(numbers) == 1 else numbers


def fake_mode(graph: Graph) -> FakeTensorMode:
    """Returns the mode of the graph's fake tensors."""
    values = (fake_result(node) for node in graph.nodes)
    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    return mode or FakeTensorMode()


def call(before: Node, target: Target, *args: Any, **kwargs: Any) -> Node:
    """Inserts a call before a node, inherits the node's source metadata, and infers the result's fake tensor."""
    return call_like(before, evaluate(before.graph, target, args, kwargs), target, *args, **kwargs)


def insert_permutation(before: Node, x: Node, order: Sequence[int]) -> Node:
    """Inserts a permutation, unless it would keep the order."""
    return x if list(order) == list(range(len(order))) else call(before, aten.permute.default, x, list(order))


def inverse_permutation(order: Sequence[int]) -> list[int]:
    """Returns the permutation that undoes another one."""
    return [order.index(axis) for axis in range(len(order))]


def call_like(before: Node, value: Any, target: Target, *args: Any, **kwargs: Any) -> Node:
    """Inserts a call whose fake result `value` is known, which saves the slow inference of `call`."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, args, kwargs)
    node.meta.update({key: before.meta[key] for key in KEPT_META if key in before.meta})
    node.meta["val"] = value
    return node


def evaluate(graph: Graph, target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Evaluates a call on fake tensors."""
    real_args, real_kwargs = map_arg((args, dict(kwargs)), fake_result)
    with fake_mode(graph), torch.no_grad():
        return target(*real_args, **real_kwargs)


def constant(before: Node, tensor: Tensor, name: str) -> Node:
    """Registers a tensor as a buffer of the module and inserts a node before `before` that reads it."""
    module: Any = before.graph.owning_module
    free = free_name(module, name)
    module.register_buffer(free, tensor.detach())
    with before.graph.inserting_before(before):
        node = before.graph.get_attr(free)
    node.meta.update({key: before.meta[key] for key in KEPT_META if key in before.meta})
    node.meta["val"] = fake_mode(before.graph).from_tensor(tensor.detach(), static_shapes=True)
    return node


def free_name(module: GraphModule, name: str) -> str:
    """Returns a name that no attribute of the module has."""
    stem = re.sub(r"\W", "_", name)
    names = (stem if count == 0 else f"{stem}_{count}" for count in range(len(module._buffers) + 2))
    return next(candidate for candidate in names if not hasattr(module, candidate))


def replace(old: Node, new: Node) -> None:
    """Redirects all users of `old` to `new` and erases `old`."""
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


def single_user(node: Node) -> Node | None:
    """Returns a node's user if it has exactly one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def calls(graph: Graph, targets: Iterable[Target] | None = None) -> list[Node]:
    """Returns the calls of a graph in order, as a list because callers modify the graph."""
    target_set = None if targets is None else set(targets)
    return [
        n for n in graph.nodes if n.op == "call_function" and (target_set is None or n.target in target_set)
    ]


def lower_calls(
    graph: Graph, lowerings: Mapping[Any, CallLowering], among: Callable[[Node], bool] = lambda _: True
) -> None:
    """Replaces each call by the result of its operator's lowering."""
    for node in calls(graph, lowerings):
        new = lowerings[node.target](node) if not node._erased and among(node) else None
        if new is not None and new is not node:
            replace(node, new)
