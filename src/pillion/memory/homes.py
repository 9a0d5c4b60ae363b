# SPDX-License-Identifier: Apache-2.0
"""The places of states, which keep their bytes between runs and lie apart from the arena.

What a state becomes is made in the state's own place where nobody reads there what it was before any more; else it is made in the arena
and copied by an op at the end."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Literal

from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.memory.blocks import Block
from pillion.memory.events import aligned, is_alias
from pillion.memory.needs import Needs

Area = Literal["arena", "state"]
"""Scratch memory that means nothing between runs, or what lives there."""


@dataclass(frozen=True)
class Spot:
    """A place in memory: so many bytes behind the beginning of an area."""

    offset: int
    area: Area = "arena"


def settle(graph: Graph, needs: Needs, blocks: MutableMapping[Value, Block]) -> None:
    """Puts what states become into their own places, where that can be."""
    for state in graph.states:
        home, block = blocks[state.before], blocks.get(state.after)
        if block is None or block.is_home:
            continue
        held = [value for value, other in blocks.items() if other is block]
        if _may_move(graph, needs, blocks, held, home, block):
            blocks.update((value, home) for value in held)


def _may_move(
    graph: Graph, needs: Needs, blocks: Mapping[Value, Block], held: list[Value], home: Block, block: Block
) -> bool:
    """Whether all values that lie in a block may lie in that of a state instead: one of them is made, after the last look at the state
    or over it, and the others are other shapes of it."""
    made = [v for v in held if (op := graph.producers.get(v)) is None or not is_alias(op)]
    if len(made) != 1 or made[0] not in graph.producers or any(v in graph.outputs for v in held):
        return False
    maker = graph.producers[made[0]]
    over = any(blocks[v] is home for v in needs[maker].in_place)
    return block.first > home.last or (over and block.first == home.last)


def homes_of(blocks: Mapping[Value, Block], shifts: Mapping[Value, int]) -> tuple[dict[Value, int], int]:
    """Lays the places of states one after another; gives the offset of each value in them, and the bytes of all."""
    at = end = 0
    for block in dict.fromkeys(block for block in blocks.values() if block.is_home):
        block.offset = at
        at += block.size
        end = max(end, at + block.tail)
    offsets = {v: block.offset + shifts.get(v, 0) for v, block in blocks.items() if block.is_home}
    return offsets, aligned(end)
