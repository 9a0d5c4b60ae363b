# SPDX-License-Identifier: Apache-2.0
"""What becomes of ops that put new rows behind kept ones, and of those that keep the last: moves of rows, where there is anything to move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pillion.emitters.c.choose import Choice
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.loops import Item, MoveRows
from pillion.ir.op import Op
from pillion.memory import Joint, MemoryPlan
from pillion.ops import Concat, Slice

JOIN = Kernel("rows_behind", Concat, calls=lambda op, arithmetic: ())
"""New rows lie behind the kept ones already, or are moved there."""
KEEP = Kernel("rows_to_front", Slice, calls=lambda op, arithmetic: ())
"""The last rows are moved to the front."""


def without_copies(joints: Iterable[Joint]) -> dict[Op, Choice]:
    """Gives the ops of joints their forms, which call no kernel."""
    chosen: dict[Op, Choice] = {}
    for joint in joints:
        chosen |= {joint.join: Choice(joint.join, JOIN, ()), joint.keep: Choice(joint.keep, KEEP, ())}
    return chosen


def moves_of(joints: Iterable[Joint], memory: MemoryPlan) -> Iterator[tuple[Op, Item]]:
    """Gives what is moved for which op."""
    for joint in joints:
        place = joint.state.before
        to, now = memory.spot(place, joint.behind), memory.spot(joint.new)
        if to != now:
            yield joint.join, Item(MoveRows(joint.new.type.size_bytes), (to, now))
        front, last = memory.spot(place), memory.spot(place, joint.moved)
        yield joint.keep, Item(MoveRows(joint.behind), (front, last))
