# SPDX-License-Identifier: Apache-2.0
"""The buffers of a repetition: those of its inner graph, once, and one for each value that is carried from time to time.

Time is counted in ticks: one in which the carried values begin, one for each op of the inner graph, one in which results are put
away. What is carried lives through all of them, what the inner graph makes on its way lives while it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.blocks import Block
from pillion.memory.events import aligned
from pillion.memory.needs import OpMemory, RepeatMemory
from pillion.ops import Repeat, Reshape


@dataclass
class Inside:
    """The blocks of what is inside of a repetition."""

    blocks: dict[Value, Block] = field(default_factory=dict)
    shifts: dict[Value, int] = field(default_factory=dict)
    scratch: dict[Op, Block] = field(default_factory=dict)


def put_inside(need: RepeatMemory, begin: int, found: Inside) -> None:
    """Adds the blocks of a repetition that begins at a tick to those of the values around it."""
    op = need.op
    outer = (*op.sequences, *op.invariants)
    for value, inner in zip(outer, (*op.elements, *op.fixed), strict=True):
        found.blocks[inner], found.shifts[inner] = found.blocks[value], found.shifts.get(value, 0)
    end = begin + need.ticks - 1
    for carried, left in zip(op.carried, op.last, strict=True):
        found.blocks[carried] = found.blocks[left] = Block(aligned(carried.type.size_bytes), begin, end)
    homes = _homes(need)
    for inner_op, inner_need, (first, last) in zip(op.body.ops, need.ops, need.spans(begin), strict=True):
        for value in inner_op.activations:
            found.blocks[value].last = max(found.blocks[value].last, last)
        _put_results(inner_op, first, last, homes, found)
        if isinstance(inner_need, RepeatMemory):
            put_inside(inner_need, first, found)
        elif inner_need.scratch_bytes:
            found.scratch[inner_op] = Block(aligned(inner_need.scratch_bytes), first, last)
    for value in op.body.outputs:
        found.blocks[value].last = end
    _lay_over(need, need.spans(begin), found)


def _put_results(op: Op, first: int, last: int, homes: dict[Value, Value], found: Inside) -> None:
    for value in op.results:
        if isinstance(op, Reshape) and not op.x.is_constant:
            found.blocks[value], found.shifts[value] = found.blocks[op.x], found.shifts.get(op.x, 0)
        elif value in homes:
            found.blocks[value] = found.blocks[homes[value]]
        else:
            found.blocks[value] = Block(aligned(value.type.size_bytes), first, last)


def _lay_over(need: RepeatMemory, spans: list[tuple[int, int]], found: Inside) -> None:
    """A result may lie where an operand lay that nobody needs afterwards; kernels may read behind operands."""
    for op, inner, (first, last) in zip(need.op.body.ops, need.ops, spans, strict=True):
        for value in inner.in_place:
            block, under = found.blocks[op.results[0]], found.blocks[value]
            is_free = under.last == last and block.first == first and block is not under
            is_shifted = found.shifts.get(value) or found.shifts.get(op.results[0])
            if is_free and not is_shifted and block.over is None and block.size <= under.size:
                block.over = under
        for value in op.activations:
            found.blocks[value].tail = max(found.blocks[value].tail, inner.overread_bytes)


def _homes(need: RepeatMemory) -> dict[Value, Value]:
    """The values for the next time that are made where what was carried to this time lies: nobody reads that any more, but the
    op that makes them, if its kernel may overwrite it."""
    op = need.op
    root = roots(op)
    reads: dict[Value, int] = {}
    makers: dict[Value, int] = {}
    for number, inner in enumerate(op.body.ops):
        reads.update((root[v], number) for v in inner.activations)
        makers.update((v, number) for v in inner.results)
    homes = {}
    for carried, value in zip(op.carried, op.next, strict=True):
        read, made = reads.get(carried, -1), makers[value]
        held = need.ops[made]
        if isinstance(held, OpMemory) and (read < made or (read == made and carried in held.in_place)):
            homes[value] = carried
    return homes


def moved(need: RepeatMemory) -> list[tuple[Value, Value]]:
    """Gives the carried values whose next ones lie elsewhere, each with that one: they are copied after each time."""
    homes = _homes(need)
    return [(c, n) for c, n in zip(need.op.carried, need.op.next, strict=True) if n not in homes]


def roots(op: Repeat) -> dict[Value, Value]:
    """Gives for each value inside of a repetition the one in whose bytes it lies: a reshape moves nothing."""
    found = {v: v for v in op.body.inputs}
    for inner in op.body.ops:
        is_view = isinstance(inner, Reshape) and not inner.x.is_constant
        found.update((v, found[inner.operands[0]] if is_view else v) for v in inner.results)
    return found
