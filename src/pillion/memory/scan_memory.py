# SPDX-License-Identifier: Apache-2.0
"""The buffers of a loop: the buffers of its inner graph, and one per carried value.

Ticks: one when the carried values begin, one per op of the inner graph, one when results are stored. Carried values
live through all ticks, other inner values while they are needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.events import align_up, storage_roots
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.op_memory import AnyMemory, OpMemory, RepeatMemory
from pillion.ops import Reshape


@dataclass
class LoopBlocks:
    """The blocks inside a loop."""

    blocks: dict[Value, LiveBlock] = field(default_factory=dict)
    shifts: dict[Value, int] = field(default_factory=dict)
    scratch: dict[Op, LiveBlock] = field(default_factory=dict)


def add_loop_blocks(need: RepeatMemory, begin: int, found: LoopBlocks) -> None:
    """Adds the blocks of a loop that begins at a tick."""
    op = need.op
    outer = (*op.sequences, *op.invariants)
    for value, inner in zip(outer, (*op.elements, *op.fixed), strict=True):
        found.blocks[inner], found.shifts[inner] = found.blocks[value], found.shifts.get(value, 0)
    end = begin + need.ticks - 1
    for carried, left in zip(op.carried, op.last, strict=True):
        found.blocks[carried] = found.blocks[left] = LiveBlock(align_up(carried.type.size_bytes), begin, end)
    overwritten = _overwritten_carried_values(need)
    for inner_op, inner_need, (first, last) in zip(op.body.ops, need.ops, need.spans(begin), strict=True):
        for value in inner_op.activations:
            found.blocks[value].last = max(found.blocks[value].last, last)
        add_result_blocks(inner_op, first, last, overwritten, found)
        if isinstance(inner_need, RepeatMemory):
            add_loop_blocks(inner_need, first, found)
        elif inner_need.scratch_bytes:
            found.scratch[inner_op] = LiveBlock(align_up(inner_need.scratch_bytes), first, last)
    for value in op.body.outputs:
        found.blocks[value].last = end
    for inner_op, inner_need, (first, last) in zip(op.body.ops, need.ops, need.spans(begin), strict=True):
        overlay_result(inner_op, inner_need, first, last, found)


def add_result_blocks(
    op: Op, first: int, last: int, overwritten: dict[Value, Value], found: LoopBlocks
) -> None:
    """Adds the blocks of an op's results: the operand's block for a reshape, the blocks of their `overwritten`, or new
    blocks."""
    for value in op.results:
        if isinstance(op, Reshape) and not op.x.is_constant:
            found.blocks[value], found.shifts[value] = found.blocks[op.x], found.shifts.get(op.x, 0)
        elif value in overwritten:
            found.blocks[value] = found.blocks[overwritten[value]]
        else:
            found.blocks[value] = LiveBlock(align_up(value.type.size_bytes), first, last)


def overlay_result(op: Op, need: AnyMemory, first: int, last: int, found: LoopBlocks) -> None:
    """Lets a result overwrite an operand that no later op reads, and extends operands by the bytes that the kernel
    overreads."""
    for value in need.in_place:
        block, under = found.blocks[op.results[0]], found.blocks[value]
        is_free = under.last == last and block.first == first and block is not under
        is_fixed = (
            found.shifts.get(value) or found.shifts.get(op.results[0]) or block.is_state or under.is_state
        )
        if is_free and not is_fixed and block.overlaid is None and block.size <= under.size:
            block.overlaid = under
    for value in op.activations:
        found.blocks[value].overread_bytes = max(found.blocks[value].overread_bytes, need.overread_bytes)


def _overwritten_carried_values(need: RepeatMemory) -> dict[Value, Value]:
    """Maps new carried values to the old ones that they overwrite: no op reads these any more, except the op that
    computes the new one, if its kernel works in place."""
    op = need.op
    root = storage_roots(op.body)
    reads: dict[Value, int] = {}
    makers: dict[Value, int] = {}
    for number, inner in enumerate(op.body.ops):
        reads.update((root[v], number) for v in inner.activations)
        makers.update((v, number) for v in inner.results)
    overwritten = {}
    for carried, value in zip(op.carried, op.next, strict=True):
        read, maker = reads.get(carried, -1), makers[value]
        op_need = need.ops[maker]
        if isinstance(op_need, OpMemory) and (
            read < maker or (read == maker and carried in op_need.in_place)
        ):
            overwritten[value] = carried
    return overwritten


def carried_values_to_copy(need: RepeatMemory) -> list[tuple[Value, Value]]:
    """Returns carried values whose new value lies elsewhere, with that value: they are copied after each step."""
    overwritten = _overwritten_carried_values(need)
    return [(c, n) for c, n in zip(need.op.carried, need.op.next, strict=True) if n not in overwritten]
