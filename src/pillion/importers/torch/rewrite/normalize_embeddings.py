# SPDX-License-Identifier: Apache-2.0
"""Folds norms of embeddings into their tables, so that small rows keep as many int8 steps as large ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.norm_calls import normalize_axes


def normalize_embeddings(module: GraphModule) -> None:
    """Folds a norm into the table of an embedding that nothing else reads."""
    for node in fx.calls(module.graph, [normalize_axes]):
        table = _normalized_table(node)
        if table is not None:
            rows: Any = node.args[0]
            table_node = fx.constant(node, table, f"{rows.name}_normed")
            fx.replace(node, fx.call(node, aten.embedding.default, table_node, rows.args[1]))


def _normalized_table(node: Node) -> Tensor | None:
    """Returns the normalized table; None if the norm cannot be folded."""
    rows, weight, bias, dims, centred, eps = node.args
    if not isinstance(rows, Node) or (rows.target, fx.single_user(rows)) != (aten.embedding.default, node):
        return None
    table = fx.constant_of(rows.args[0])
    last = len(fx.shape_of(rows)) - 1
    if table is None or [int(dim) % (last + 1) for dim in dims] != [last]:  # type: ignore[union-attr,arg-type]  # a list of numbers
        return None
    tensors = [fx.constant_of(part) for part in (weight, bias)]
    if tensors.count(None) != (weight, bias).count(None) or _is_read_elsewhere(rows.args[0]):
        return None
    scale, offset = (None if tensor is None else tensor.double() for tensor in tensors)
    with torch.no_grad():
        return normalize_axes(table.double(), scale, offset, [1], bool(centred), float(eps)).float()  # type: ignore[arg-type]  # a number


def _is_read_elsewhere(table: Any) -> bool:
    """Whether several calls read a constant; a folded copy would take flash twice."""
    readers = [
        user for node in table.graph.find_nodes(op="get_attr", target=table.target) for user in node.users
    ]
    return len(readers) != 1
