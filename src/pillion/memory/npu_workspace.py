# SPDX-License-Identifier: Apache-2.0
"""Places operands and results of NPU segments inside the NPU's workspace, where nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.events import align_up
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.op_memory import Needs, OpMemory

CACHE_LINE = 32
"""The core's cache line in bytes. An arena that processors share is aligned to it: no other data are written back."""


def place_in_npu_workspace(
    graph: Graph,
    needs: Needs,
    blocks: Mapping[Value, LiveBlock],
    scratch: Mapping[Op, LiveBlock],
    shifts: Mapping[Value, int],
) -> None:
    """Binds results and consumed operands to their offsets in the workspaces, unless they are bound elsewhere. Operands that
    the core reads while the NPU works are not consumed."""
    for number, op in enumerate(graph.ops):
        workspace = needs[op].workspace
        if workspace is None:
            continue
        work = scratch[op]
        shared = _blocks_read_meanwhile(graph, number, needs, blocks)
        values, offsets = (*op.activations, *op.results), (*workspace.inputs, *workspace.outputs)
        for value, at in zip(values, offsets, strict=True):
            block = blocks.get(value)
            if block is None or block is work or shifts.get(value) or not _is_unbound_in_arena(block, value):
                continue
            is_used_up = value in op.results or (block.last == work.last and block not in shared)
            if is_used_up and work.try_to_nest(block, at + guard_bytes(needs, op)):
                block.overlaid = None


def _blocks_read_meanwhile(
    graph: Graph, number: int, needs: Needs, blocks: Mapping[Value, LiveBlock]
) -> set[LiveBlock]:
    """Returns the blocks that the core reads while the NPU runs a segment."""
    need = needs[graph.ops[number]]
    count = need.overlapped if isinstance(need, OpMemory) else 0
    others = graph.ops[number + 1 : number + 1 + count]
    return {blocks[value] for op in others for value in op.activations if value in blocks}


def guard_bytes(needs: Needs, op: Op) -> int:
    """Returns the offset of an op's scratch in its block."""
    need = needs.get(op)
    return need.guard_bytes if isinstance(need, OpMemory) else 0


def _is_unbound_in_arena(block: LiveBlock, value: Value) -> bool:
    """Whether a block lies in the arena, belongs to a value or its reshapes, and is bound to no other."""
    return not block.is_state and block.extent is None and block.size == align_up(value.type.size_bytes)
