# SPDX-License-Identifier: Apache-2.0
"""The layout of states, which keep their bytes between runs and lie outside the arena.

The new value of a state is computed in place if no op reads the old one any more; otherwise it is computed in
the arena and copied at the end."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.memory.events import align_up, is_alias
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.op_memory import Needs

Area = str
"""The arena, whose bytes mean nothing between runs; the states; or the arena in a further memory, by its name."""
ARENA, STATE = "arena", "state"


@dataclass(frozen=True)
class MemoryLocation:
    """A location: an offset in an area."""

    offset: int
    area: Area = ARENA


def place_new_states(graph: Graph, needs: Needs, blocks: MutableMapping[Value, LiveBlock]) -> None:
    """Places new values of states in the states' own blocks where possible."""
    for state in graph.states:
        state_block, block = blocks[state.before], blocks.get(state.after)
        if block is None or block.is_state:
            continue
        members = [value for value, own_block in blocks.items() if own_block is block]
        if _may_share_state_block(graph, needs, blocks, members, state_block, block):
            blocks.update((value, state_block) for value in members)


def _may_share_state_block(
    graph: Graph,
    needs: Needs,
    blocks: Mapping[Value, LiveBlock],
    members: list[Value],
    state_block: LiveBlock,
    block: LiveBlock,
) -> bool:
    """Whether all values of a block may lie in a state's block: one is computed after the last read of the state, or
    in place, and the rest are its reshapes."""
    computed = [v for v in members if (op := graph.producers.get(v)) is None or not is_alias(op)]
    if len(computed) != 1 or computed[0] not in graph.producers or any(v in graph.outputs for v in members):
        return False
    maker = graph.producers[computed[0]]
    over = any(blocks[v] is state_block for v in needs[maker].in_place)
    return block.first > state_block.last or (over and block.first == state_block.last)


def layout_states(
    blocks: Mapping[Value, LiveBlock], shifts: Mapping[Value, int]
) -> tuple[dict[Value, int], int]:
    """Lays states one after another; returns the offset of each value, and the total size."""
    at = end = 0
    for block in dict.fromkeys(block for block in blocks.values() if block.is_state):
        block.offset = at
        at += block.size
        end = max(end, at + block.overread_bytes)
    offsets = {v: block.offset + shifts.get(v, 0) for v, block in blocks.items() if block.is_state}
    return offsets, align_up(end)
