# SPDX-License-Identifier: Apache-2.0
"""Offsets for every activation and every kernel's scratch, in one arena.

The *floor* is the largest sum of bytes that are live at once: no plan without in-place results can be smaller. Blocks are
placed first fit in several orders and then in shuffled ones, until the floor is reached or the tries are used up. Graphs
of hundreds of values that are live at once get fewer tries."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Reshape

ALIGNMENT = 16
SHUFFLES = 300
"""Tries after the fixed orders, at most."""
MOST_MEETINGS = 4_000_000
"""Pairs of blocks that are compared in all shuffled tries together: some seconds."""


@dataclass(frozen=True)
class OpMemory:
    """The memory that the chosen kernel of an op needs beside its operands and results."""

    scratch_bytes: int = 0
    overread_bytes: int = 0
    in_place: tuple[Value, ...] = ()


@dataclass(eq=False)
class _Block:
    """Bytes that are needed from op `first` to op `last`; `over` may be overlaid if both begin at one place."""

    size: int
    first: int
    last: int
    over: _Block | None = None
    tail: int = 0
    offset: int = -1
    rivals: Sequence[_Block] = ()
    """The blocks that are live at some time when this one is."""

    def meets(self, other: _Block) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, eq=False)
class Resident:
    """Bytes of the arena that belong to someone from op `first` to op `last`: to values, or to an op as its scratch."""

    offset: int
    bytes: int
    first: int
    last: int
    values: tuple[Value, ...] = ()
    """More than one where they are other shapes of one another."""
    scratch_of: Op | None = None


@dataclass(frozen=True)
class MemoryPlan:
    """The byte offsets of all buffers in the arena."""

    offsets: Mapping[Value, int]
    scratch_offsets: Mapping[Op, int]
    arena_bytes: int
    activation_bytes: int
    """What the arena would be without scratch."""
    floor_bytes: int
    scratch_bytes: int
    """The largest scratch of any op."""
    live_bytes: tuple[int, ...] = field(default=())
    """Bytes of live activations during each op."""
    residents: tuple[Resident, ...] = field(default=())
    """Who lives where, and when."""


def aligned(size: int) -> int:
    """Rounds a size up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_memory(graph: Graph, needs: Mapping[Op, OpMemory]) -> MemoryPlan:
    """Makes a plan for the graph with its kernels' needs."""
    blocks = _activation_blocks(graph, needs)
    unique = list(dict.fromkeys(blocks.values()))
    live = _live_bytes(unique, len(graph.ops))
    floor = max(live, default=0)
    activation_bytes = _place(unique, floor)
    scratch = {
        op: _Block(aligned(needs[op].scratch_bytes), i, i)
        for i, op in enumerate(graph.ops)
        if needs[op].scratch_bytes
    }
    everything = [*unique, *scratch.values()]
    with_scratch = max(_live_bytes(everything, len(graph.ops)), default=0)
    arena_bytes = _place(everything, max(with_scratch, floor)) if scratch else activation_bytes
    arena_bytes = max([arena_bytes, *(b.offset + b.size + b.tail for b in unique)])
    return MemoryPlan(
        offsets={value: block.offset for value, block in blocks.items()},
        scratch_offsets={op: block.offset for op, block in scratch.items()},
        arena_bytes=aligned(arena_bytes),
        activation_bytes=activation_bytes,
        floor_bytes=floor,
        scratch_bytes=max((b.size for b in scratch.values()), default=0),
        live_bytes=tuple(live),
        residents=(*_value_residents(blocks, graph), *_scratch_residents(scratch)),
    )


def _value_residents(blocks: Mapping[Value, _Block], graph: Graph) -> list[Resident]:
    """Who lives in the blocks of activations. What is read after the last op lives until that."""
    held: dict[_Block, list[Value]] = {}
    for value, block in blocks.items():
        held.setdefault(block, []).append(value)
    end = max(len(graph.ops) - 1, 0)
    return [
        Resident(b.offset, b.size, b.first, min(b.last, end), values=tuple(values))
        for b, values in held.items()
    ]


def _scratch_residents(scratch: Mapping[Op, _Block]) -> list[Resident]:
    return [Resident(b.offset, b.size, b.first, b.last, scratch_of=op) for op, b in scratch.items()]


def _activation_blocks(graph: Graph, needs: Mapping[Op, OpMemory]) -> dict[Value, _Block]:
    """A block for every value; values that are only other shapes of one another share theirs."""
    end = len(graph.ops)
    blocks: dict[Value, _Block] = {v: _Block(aligned(v.type.size_bytes), 0, 0) for v in graph.inputs}
    for i, op in enumerate(graph.ops):
        for value in op.activations:
            blocks[value].last = max(blocks[value].last, i)
        for value in op.results:
            shared = isinstance(op, Reshape) and not op.x.is_constant
            blocks[value] = blocks[op.operands[0]] if shared else _Block(aligned(value.type.size_bytes), i, i)
            blocks[value].last = max(blocks[value].last, i)
    for value in graph.outputs:
        blocks[value].last = end
    _allow_in_place(graph, needs, blocks)
    return blocks


def _allow_in_place(graph: Graph, needs: Mapping[Op, OpMemory], blocks: Mapping[Value, _Block]) -> None:
    """A result may lie where an operand lay that nobody needs afterwards."""
    for i, op in enumerate(graph.ops):
        for value in needs[op].in_place:
            block = blocks[op.results[0]]
            meets = blocks[value].last == i and block.first == i and block is not blocks[value]
            if meets and block.over is None and block.size <= blocks[value].size:
                block.over = blocks[value]
        for value in op.activations:
            blocks[value].tail = max(blocks[value].tail, needs[op].overread_bytes)


def _live_bytes(blocks: Iterable[_Block], ops: int) -> list[int]:
    live = [0] * max(ops, 1)
    for block in blocks:
        for i in range(block.first, min(block.last, ops - 1) + 1):
            live[i] += block.size
    return live


def _place(blocks: Sequence[_Block], floor: int) -> int:
    """Gives every block an offset; the size of the best plan found."""
    orders = (
        lambda b: (-b.size, b.first),
        lambda b: (-(b.last - b.first), -b.size),
        lambda b: (b.first, -b.size),
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (-b.last, -b.size),
    )
    _find_rivals(blocks)
    best: int | None = None
    best_offsets: list[int] = []
    for order in _orders(blocks, [sorted(blocks, key=key) for key in orders]):
        size = _first_fit(order, best)
        if size is not None:
            best, best_offsets = size, [b.offset for b in blocks]
        if best is not None and best <= floor:
            break
    for block, offset in zip(blocks, best_offsets, strict=True):
        block.offset = offset
    return best or 0


def _find_rivals(blocks: Sequence[_Block]) -> None:
    """Tells each block which others are live at some time when it is, in the order of the list. In running order only the
    blocks that are live still are looked at: nobody meets the rest."""
    rivals: list[list[int]] = [[] for _ in blocks]
    live: list[int] = []
    for number in sorted(range(len(blocks)), key=lambda n: blocks[n].first):
        live = [other for other in live if blocks[other].meets(blocks[number])]
        for other in live:
            rivals[other].append(number)
        rivals[number] += live
        live.append(number)
    for block, numbers in zip(blocks, rivals, strict=True):
        block.rivals = [blocks[n] for n in sorted(numbers)]


def _orders(blocks: Sequence[_Block], fixed: list[list[_Block]]) -> Iterable[list[_Block]]:
    yield from fixed
    shuffler = random.Random(0)
    meetings = sum(len(block.rivals) for block in blocks) + 1
    for _ in range(min(SHUFFLES, MOST_MEETINGS // meetings)):
        order = list(fixed[0])
        for _ in range(3):
            i, j = shuffler.randrange(len(order)), shuffler.randrange(len(order))
            order.insert(i, order.pop(j))
        yield order


def _first_fit(order: Sequence[_Block], best: int | None) -> int | None:
    """Places the blocks one after another; the size of the plan, or None as soon as it is not smaller than the best one."""
    for block in order:
        block.offset = -1
    size = 0
    for block in order:
        rivals = sorted((b for b in block.rivals if b.offset >= 0), key=_offset)
        at = _overlaid(block, rivals)
        block.offset = at if at >= 0 else _lowest_gap(block.size, rivals)
        size = max(size, block.offset + block.size)
        if best is not None and size >= best:
            return None
    return size


def _overlaid(block: _Block, rivals: Sequence[_Block]) -> int:
    """The offset of the operand that the block may overwrite, or that of the result that may overwrite the block; -1 if
    neither is placed or something else is in the way."""
    for partner in rivals:
        if partner is block.over or partner.over is block:
            at, others = partner.offset, [b for b in rivals if b is not partner]
            if all(b.offset + b.size <= at or at + block.size <= b.offset for b in others):
                return at
    return -1


_offset = attrgetter("offset")


def _lowest_gap(size: int, rivals: Sequence[_Block]) -> int:
    at = 0
    for rival in rivals:
        if at + size <= rival.offset:
            return at
        at = max(at, rival.offset + rival.size)
    return at
