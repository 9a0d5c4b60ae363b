# SPDX-License-Identifier: Apache-2.0
"""Folds constants that a model builds by writing: `pe = zeros(…); pe[:, 0::2] = sin(…)`.

The calls run on real tensors, in order, so that views share memory; each reader gets a snapshot. Tensors that
belong to the module, or receive values that depend on an input, are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from pillion.importers.torch.fx_nodes import (
    RANDOM,
    argument,
    aten,
    call,
    calls,
    constant,
    constant_of,
    fake_result,
    replace,
)

LIKE: dict[Any, int | None] = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.empty_like.default: 0,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.new_empty.default: 0,
    aten.full_like.default: None,
    aten.new_full.default: None,
}
"""Operators that fill a tensor of another one's shape or type, and the fill value; None if it is an argument."""


def lower_fill_like(module: GraphModule) -> None:
    """Replaces `zeros_like` and similar calls by `full`. Uninitialized tensors become zeros."""
    for node in calls(module.graph, LIKE):
        number = LIKE[node.target]
        if number is None:
            number = argument(node, 1 if node.target is aten.full_like.default else 2)
        result = fake_result(node)
        replace(node, call(node, aten.full.default, list(result.shape), number, dtype=result.dtype))


def fold_constant_stores(module: GraphModule) -> None:
    """Replaces reads of written constants by their values at the time of the read, and removes the writes."""
    computed = {node: None for node in _input_independent_calls(module)}
    if not any(_is_write_call(node) for node in computed):
        return
    families = _StorageFamilies()
    for _ in _run_stores(module, computed, families):
        pass
    settled = families.written - families.foreign
    snapshots: dict[tuple[Node, Node], Tensor] = {}
    for reader, read, tensor in _run_stores(module, computed, _StorageFamilies()):
        if families.of.get(read) in settled:
            snapshots[reader, read] = tensor.clone()
    for (reader, read), tensor in snapshots.items():
        reader.replace_input_with(read, constant(reader, tensor, f"{read.name}_made"))
    for node in reversed(computed):
        writes_elsewhere = _is_write_call(node) and _written_storage(node, families) not in settled
        if not node.users and not writes_elsewhere:
            module.graph.erase_node(node)


def _written_storage(write: Node, families: _StorageFamilies) -> int:
    """Storage that a call writes to; 0 if it was not allocated by these calls."""
    written = write.args[0]
    return families.of.get(written, 0) if isinstance(written, Node) else 0


@dataclass
class _StorageFamilies:
    """Storages of tensors, and which of them are written."""

    of: dict[Node, int] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)
    """Storages of the module, and those that receive input-dependent values."""


def _input_independent_calls(module: GraphModule) -> Iterator[Node]:
    """Yields the calls that depend on no input, in order."""
    known: set[Node] = set()
    for node in calls(module.graph):
        is_known = all(source in known or constant_of(source) is not None for source in node.all_input_nodes)
        if is_known and isinstance(node.target, torch._ops.OpOverload) and RANDOM not in node.target.tags:
            known.add(node)
            yield node


def _is_write_call(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _run_stores(
    module: GraphModule, computed: dict[Node, None], families: _StorageFamilies
) -> Iterator[tuple[Node, Node, Tensor]]:
    """Runs the calls in order and yields each outside reader, the node that it reads, and the current tensor."""
    values: dict[Node, Any] = {}
    for node in module.graph.nodes:
        if node in computed:
            for source in node.all_input_nodes:
                if source not in values:
                    values[source] = constant_of(source).clone()  # type: ignore[union-attr]  # it is a constant
                    families.foreign.add(_storage_address(values[source]))
            args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
            with torch.no_grad():
                values[node] = node.target(*args, **kwargs)
            _note_storage(node, values, families)
            continue
        for read in node.all_input_nodes:
            if isinstance(values.get(read), Tensor) and read in computed:
                if _is_write_call(node):
                    families.foreign.add(_storage_address(values[read]))
                yield node, read, values[read]


def _note_storage(node: Node, values: dict[Node, Any], families: _StorageFamilies) -> None:
    tensors = [leaf for leaf in pytree.tree_leaves(values[node]) if isinstance(leaf, Tensor)]
    if tensors:
        families.of[node] = _storage_address(tensors[0])
    if _is_write_call(node) and isinstance(node.args[0], Node):
        families.written.add(_storage_address(values[node.args[0]]))


def _storage_address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
