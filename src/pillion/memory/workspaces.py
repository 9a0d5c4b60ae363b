# SPDX-License-Identifier: Apache-2.0
"""What another processor reads and makes lies where it expects it: inside of the memory that it works in, so that nothing is copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.workspace import Workspace
from pillion.memory.blocks import Block
from pillion.memory.events import aligned
from pillion.memory.needs import Needs

CACHE_LINE = 32
"""Where processors share the arena, it begins and ends with a line of the core's cache: no other data are written back with it."""


def put_inside_workspaces(
    graph: Graph,
    needs: Needs,
    blocks: Mapping[Value, Block],
    scratch: Mapping[Op, Block],
    shifts: Mapping[Value, int],
) -> None:
    """Binds operands that are used up and results to their places in the workspaces, where nothing else decides on their place."""
    for op in graph.ops:
        workspace = needs[op].workspace
        if workspace is None:
            continue
        work = scratch[op]
        for value, at in _places(op, workspace):
            block = blocks.get(value)
            if block is None or block is work or shifts.get(value) or not _is_free(block, value):
                continue
            is_used_up = value in op.results or block.last == work.last
            if is_used_up and work.holds(block, at):
                block.over = None


def _places(op: Op, workspace: Workspace) -> Iterator[tuple[Value, int]]:
    yield from zip(op.activations, workspace.inputs, strict=True)
    yield from zip(op.results, workspace.outputs, strict=True)


def _is_free(block: Block, value: Value) -> bool:
    """Whether a block belongs to a value, or other shapes of it, in the arena, and follows no other."""
    return not block.is_home and block.extent is None and block.size == aligned(value.type.size_bytes)
