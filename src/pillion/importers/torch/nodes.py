# SPDX-License-Identifier: Apache-2.0
"""Small tools for torch.fx graphs: read a node, insert a node."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

aten = torch.ops.aten
Target = Callable[..., Any]

RANDOM = torch.Tag.nondeterministic_seeded

KEPT_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn")
"""What a new node takes over from the node that it stands for."""

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TORCH = os.path.dirname(torch.__file__)


def value_of(node: Node) -> Any:
    """Gives the fake tensor (or tuple of them) that stands for the result of a node."""
    return node.meta.get("val")


def shape_of(node: Node) -> tuple[int, ...]:
    """Gives the shape of a node's result."""
    return tuple(int(size) for size in value_of(node).shape)


def is_tensor(node: object, dtype: torch.dtype = torch.float32) -> bool:
    """Whether this is a node with one tensor of that type as its result."""
    value = value_of(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.dtype == dtype


def constant_of(node: object) -> Tensor | None:
    """Gives the tensor behind a `get_attr` node, None for everything else."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    found: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found if isinstance(found, Tensor) else None


def is_constant(node: object) -> bool:
    """Whether the result depends on no input. While a model is trained, weights may be computed from parameters."""
    return isinstance(node, Node) and all(_holds_or_computes(n) for n in _sources(node))


def held(node: Any) -> Any:
    """Gives what a call of constants gives: something that `is_constant`."""
    found = constant_of(node)
    if found is not None:
        return found
    args, kwargs = map_arg((node.args, dict(node.kwargs)), held)
    with torch.no_grad():
        return node.target(*args, **kwargs)


def constant_nodes(graph: Graph) -> frozenset[Node]:
    """Finds all nodes that `is_constant` holds for in one walk: for those who ask of many nodes."""
    found: set[Node] = set()
    for node in graph.nodes:
        if _holds_or_computes(node) and found.issuperset(node.all_input_nodes):
            found.add(node)
    return frozenset(found)


def is_trainable(node: object) -> bool:
    """Whether this is a parameter, or computed from nothing but constants of which one is a parameter, that training is to change."""
    return is_constant(node) and any(_is_parameter(n) for n in _sources(node))


def _sources(node: object) -> Iterator[Node]:
    """A node and all that it is computed from, each once and without recursion: graphs are deep, and paths in them many."""
    waiting = [node] if isinstance(node, Node) else []
    seen = set(waiting)
    while waiting:
        one = waiting.pop()
        yield one
        fresh = [n for n in one.all_input_nodes if n not in seen]
        seen.update(fresh)
        waiting += fresh


def _holds_or_computes(node: Node) -> bool:
    """Is this a tensor of the module, or a call that gives the same for the same operands?"""
    if node.op == "get_attr":
        return constant_of(node) is not None
    return node.op == "call_function" and RANDOM not in getattr(node.target, "tags", ())


def _is_parameter(node: Node) -> bool:
    parameter = constant_of(node)
    return isinstance(parameter, nn.Parameter) and parameter.requires_grad


def source_line(node: Node) -> str:
    """Says where in the user's model the node comes from, as `model.py:41`; the module where no line of the user's is known."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    if own:
        return f"{own[-1][0].rpartition('/')[2]}:{own[-1][1]}"
    return f"module {module_of(node)}" if module_of(node) else ""


def operator_name(node: Node) -> str:
    """Names what a node calls; functions of ours by their names, not by their addresses."""
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else _function_name(node.target)


def _function_name(target: Any) -> str:
    return str(getattr(target, "__name__", target))


def module_of(node: Node) -> str:
    """Names the module in whose forward the node was recorded, as the user names it (`features.3.conv`)."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next((str(entry[0]) for entry in reversed(stack.values())), "")
    return path.replace("L['self'].", "").replace("L['self']", "")


def argument(node: Node, position: int, default: Any = None) -> Any:
    """Gives a positional argument of a call, by the schema's order, wherever it was given."""
    if position < len(node.args):
        return node.args[position]
    schema = getattr(node.target, "_schema", None)
    if schema is None or position >= len(schema.arguments):
        return default
    declared = schema.arguments[position]
    return node.kwargs.get(declared.name, declared.default_value if declared.has_default_value() else default)


def named_argument(node: Node, name: str) -> Any:
    """Gives an argument of a call, by its name in the schema."""
    names = [declared.name for declared in node.target._schema.arguments]  # type: ignore[union-attr]  # an OpOverload
    return argument(node, names.index(name))


def fake_mode(graph: Graph) -> FakeTensorMode:
    """Gives the mode in which the graph's fake tensors live."""
    values = (value_of(node) for node in graph.nodes)
    found = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    return found or FakeTensorMode()


def call(before: Node, target: Target, *args: Any, **kwargs: Any) -> Node:
    """Inserts a new call in front of a node, with that node's source line and a value of its own."""
    return call_like(before, evaluate(before.graph, target, args, kwargs), target, *args, **kwargs)


def call_like(before: Node, value: Any, target: Target, *args: Any, **kwargs: Any) -> Node:
    """Inserts a new call, like `call`, where the fake tensor that stands for the result is known: torch takes long to find it."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, args, kwargs)
    node.meta.update({key: before.meta[key] for key in KEPT_META if key in before.meta})
    node.meta["val"] = value
    return node


def evaluate(graph: Graph, target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Computes what a call gives on fake tensors."""
    real_args, real_kwargs = map_arg((args, dict(kwargs)), value_of)
    with fake_mode(graph), torch.no_grad():
        return target(*real_args, **real_kwargs)


def constant(module: GraphModule, before: Node, tensor: Tensor, name: str) -> Node:
    """Adds a new constant to the module, read in front of a node."""
    free = free_name(module, name)
    module.register_buffer(free, tensor.detach())
    with module.graph.inserting_before(before):
        node = module.graph.get_attr(free)
    node.meta.update({key: before.meta[key] for key in KEPT_META if key in before.meta})
    node.meta["val"] = fake_mode(module.graph).from_tensor(tensor.detach(), static_shapes=True)
    return node


def free_name(module: GraphModule, name: str) -> str:
    """Gives a name that the module does not have yet."""
    stem = re.sub(r"\W", "_", name)
    names = (stem if count == 0 else f"{stem}_{count}" for count in range(len(module._buffers) + 2))
    return next(candidate for candidate in names if not hasattr(module, candidate))


def replace(old: Node, new: Node) -> None:
    """Lets everyone who read `old` read `new`; `old` goes."""
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


def single_user(node: Node) -> Node | None:
    """Gives the only node that reads this one, if there is only one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def calls(graph: Graph, targets: Iterable[Target] | None = None) -> list[Node]:
    """Lists the calls of a graph in order (a list: callers change the graph on the way)."""
    wanted = None if targets is None else set(targets)
    return [n for n in graph.nodes if n.op == "call_function" and (wanted is None or n.target in wanted)]


def evaluate_unary(node: Node, values: Tensor) -> Tensor:
    """Computes what a call with one tensor argument gives on other values: the table of a function, computed by torch."""
    with torch.no_grad():
        result: Tensor = node.target(values, *node.args[1:], **node.kwargs)  # type: ignore[operator]  # a call_function
        return result
