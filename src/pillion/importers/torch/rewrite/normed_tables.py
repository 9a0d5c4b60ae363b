# SPDX-License-Identifier: Apache-2.0
"""Norms of words: each row of a table has one result, so the table holds that, and a small row has as many steps of int8 as a large one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import (
    aten,
    call,
    calls,
    constant,
    constant_of,
    replace,
    shape_of,
    single_user,
)
from pillion.importers.torch.rewrite.standardized import standardized


def norm_tables(module: GraphModule) -> None:
    """Puts the norm that alone reads what an embedding looks up into the table, where nothing else reads that."""
    for node in calls(module.graph, [standardized]):
        table = _normed(node)
        if table is not None:
            rows: Any = node.args[0]
            held = constant(module, node, table, f"{rows.name}_normed")
            replace(node, call(node, aten.embedding.default, held, rows.args[1]))


def _normed(node: Node) -> Tensor | None:
    """The table of a norm of words; None where there is no such table."""
    rows, weight, bias, dims, centred, eps = node.args
    if (
        not isinstance(rows, Node)
        or rows.target is not aten.embedding.default
        or single_user(rows) is not node
    ):
        return None
    table = constant_of(rows.args[0])
    last = len(shape_of(rows)) - 1
    if table is None or [int(dim) % (last + 1) for dim in dims] != [last]:  # type: ignore[union-attr,arg-type]  # a list of numbers
        return None
    held = [constant_of(part) for part in (weight, bias)]
    is_computed = any(
        part is not None and one is None for part, one in zip((weight, bias), held, strict=True)
    )
    if is_computed or _is_read_elsewhere(rows.args[0]):
        return None
    scale, offset = (None if one is None else one.double() for one in held)
    with torch.no_grad():
        return standardized(table.double(), scale, offset, [1], bool(centred), float(eps)).float()  # type: ignore[arg-type]  # a number


def _is_read_elsewhere(table: Any) -> bool:
    """Whether a constant is read by several calls: it would be in flash twice."""
    readers = [
        user for node in table.graph.find_nodes(op="get_attr", target=table.target) for user in node.users
    ]
    return len(readers) != 1
