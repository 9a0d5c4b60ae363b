# SPDX-License-Identifier: Apache-2.0
"""Folds constants that a model builds by writing: `pe = zeros(…); pe[:, 0::2] = sin(…)`.

The calls run on real tensors, in order, so that views share memory; each reader gets a snapshot. Tensors that
belong to the module, or receive values that depend on an input, are left alone."""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.functionalize import is_write

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
    for node in fx.calls(module.graph, LIKE):
        number = LIKE[node.target]
        if number is None:
            number = fx.argument_of(node, 1 if node.target is aten.full_like.default else 2)
        result = fx.fake_result(node)
        fx.replace(node, fx.call(node, aten.full.default, list(result.shape), number, dtype=result.dtype))


def fold_constant_stores(module: GraphModule) -> None:
    """Replaces reads of written constants by their values at the time of the read, and removes the writes."""
    computed = _input_independent_calls(module)
    if any(map(is_write, computed)):
        stores = _StoreRun(module, computed)
        folded = stores.written - stores.foreign
        affected = stores.affected(folded)
        if any(not stores.storages(node).isdisjoint(stores.foreign) for node in affected):
            return  # a value that depends on a write is left alone, and so the write must stay
        for (reader, read), tensor in stores.snapshots.items():
            if read in affected:
                reader.replace_input_with(read, fx.constant(reader, tensor, f"{read.name}_made"))
        for node in reversed(computed):
            stays = is_write(node) and stores.storages(*_written_operands(node)).isdisjoint(folded)
            if not node.users and not stays:
                module.graph.erase_node(node)


def _input_independent_calls(module: GraphModule) -> dict[Node, None]:
    """Returns the calls that depend on no input, in order."""
    known: dict[Node, None] = {}
    for node in fx.calls(module.graph):
        is_known = all(
            source in known or fx.constant_of(source) is not None for source in node.all_input_nodes
        )
        is_operator = node.target is getitem or isinstance(node.target, torch._ops.OpOverload)
        if is_known and is_operator and fx.RANDOM not in getattr(node.target, "tags", ()):
            known[node] = None
    return known


def _written_operands(write: Node) -> list[Node]:
    declared = enumerate(write.target._schema.arguments)  # type: ignore[union-attr]  # a write has a schema
    written = [
        fx.argument_of(write, i) for i, a in declared if a.alias_info is not None and a.alias_info.is_write
    ]
    return [operand for operand in written if isinstance(operand, Node)]


class _StoreRun:
    """A run of the calls in order, on real tensors."""

    def __init__(self, module: GraphModule, computed: dict[Node, None]) -> None:
        self.computed = computed
        self.values: dict[Node, Any] = {}
        self.written: set[int] = set()
        """Storages that the calls write to."""
        self.foreign: set[int] = set()
        """Storages of the module, and storages that receive input-dependent values."""
        self.snapshots: dict[tuple[Node, Node], Tensor] = {}
        """Values at the time of each read, by reader and node read."""
        for node in module.graph.nodes:
            (self._evaluate_node if node in computed else self._note_reads)(node)

    def _evaluate_node(self, node: Node) -> None:
        for source in node.all_input_nodes:
            if source not in self.values:
                self.values[source] = fx.constant_of(source).clone()  # type: ignore[union-attr]  # it is a constant
                self.foreign |= self.storages(source)
        args, kwargs = map_arg((node.args, dict(node.kwargs)), self.values.__getitem__)
        with torch.no_grad():
            self.values[node] = node.target(*args, **kwargs)  # type: ignore[operator]  # a call
        if is_write(node):
            self.written |= self.storages(*_written_operands(node))

    def _note_reads(self, node: Node) -> None:
        for read in node.all_input_nodes:
            if read in self.computed:
                if is_write(node):
                    self.foreign |= self.storages(read)
                if isinstance(self.values[read], Tensor):
                    self.snapshots[node, read] = self.values[read].clone()

    def storages(self, *nodes: Node) -> set[int]:
        """Returns the storages of results; a node that was not computed has none."""
        leaves = pytree.tree_leaves([self.values.get(node) for node in nodes])
        return {leaf.untyped_storage().data_ptr() for leaf in leaves if isinstance(leaf, Tensor)}

    def affected(self, storages: set[int]) -> set[Node]:
        """Returns the nodes in some storages, and the nodes computed from them."""
        nodes: set[Node] = set()
        for node in self.computed:
            if not nodes.isdisjoint(node.all_input_nodes) or not self.storages(node).isdisjoint(storages):
                nodes.add(node)
        return nodes
